package conf

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/des"
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"hash"
	"strings"
)

// Reasons for which a key cannot be opened.
var (
	errNoKey       = errors.New("there is no private key in it")
	errNeedsSecret = errors.New("it is encrypted")
	errWrongSecret = errors.New("it is encrypted, and not with this password")
)

// openKey returns the private key of a PEM text, without encryption.
func openKey(text, password string) (string, error) {
	rest := []byte(text)
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return "", errNoKey
		}
		if !strings.HasSuffix(block.Type, "PRIVATE KEY") {
			continue
		}
		legacy := strings.Contains(block.Headers["Proc-Type"], "ENCRYPTED")
		if (legacy || block.Type == "ENCRYPTED PRIVATE KEY") && password == "" {
			return "", errNeedsSecret
		}
		der, kind := block.Bytes, block.Type
		var err error
		switch {
		case legacy:
			//lint:ignore SA1019 keys of old are what they are; the network sees nothing of this
			if der, err = x509.DecryptPEMBlock(block, []byte(password)); err != nil {
				return "", errWrongSecret
			}
		case kind == "ENCRYPTED PRIVATE KEY":
			if der, err = openPKCS8(der, password); err != nil {
				return "", err
			}
			kind = "PRIVATE KEY"
		}
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})), nil
	}
}

// The parts of an encrypted key (RFC 5958 §3, RFC 8018 appendix A).
type (
	encryptedKey struct {
		Algorithm pkix.AlgorithmIdentifier
		Data      []byte
	}
	pbes2 struct {
		KDF, Cipher pkix.AlgorithmIdentifier
	}
	pbkdf2Params struct {
		Salt       []byte
		Iterations int
		KeyLength  int                      `asn1:"optional"`
		PRF        pkix.AlgorithmIdentifier `asn1:"optional"`
	}
)

// prfs are the hashes of PBKDF2, by OID; the empty one is the default.
var prfs = map[string]func() hash.Hash{
	"": sha1.New, "1.2.840.113549.2.7": sha1.New, "1.2.840.113549.2.9": sha256.New, "1.2.840.113549.2.10": sha512.New384, "1.2.840.113549.2.11": sha512.New,
}

// blockCipher is a cipher and the length of its key.
type blockCipher struct {
	make   func([]byte) (cipher.Block, error)
	length int
}

var blockCiphers = map[string]blockCipher{
	"2.16.840.1.101.3.4.1.2": {aes.NewCipher, 16}, "2.16.840.1.101.3.4.1.22": {aes.NewCipher, 24}, "2.16.840.1.101.3.4.1.42": {aes.NewCipher, 32},
	"1.2.840.113549.3.7": {des.NewTripleDESCipher, 24},
}

// openPKCS8 decrypts what openssl makes: PBES2 with PBKDF2 and a cipher in CBC mode.
func openPKCS8(der []byte, password string) ([]byte, error) {
	const mostRounds = 10_000_000
	var outer encryptedKey
	var scheme pbes2
	var params pbkdf2Params
	if _, err := asn1.Unmarshal(der, &outer); err != nil {
		return nil, errors.New("its encryption cannot be read")
	}
	if id := outer.Algorithm.Algorithm.String(); id != "1.2.840.113549.1.5.13" {
		return nil, fmt.Errorf("its encryption %s is not supported; convert it with openssl pkcs8 -topk8", id)
	}
	if _, err := asn1.Unmarshal(outer.Algorithm.Parameters.FullBytes, &scheme); err != nil {
		return nil, errors.New("its encryption cannot be read")
	}
	if id := scheme.KDF.Algorithm.String(); id != "1.2.840.113549.1.5.12" {
		return nil, fmt.Errorf("its key derivation %s is not supported; convert it with openssl pkcs8 -topk8", id)
	}
	var iv []byte
	_, err1 := asn1.Unmarshal(scheme.KDF.Parameters.FullBytes, &params)
	_, err2 := asn1.Unmarshal(scheme.Cipher.Parameters.FullBytes, &iv)
	prf, known := prfs[oid(params.PRF)]
	c, also := blockCiphers[oid(scheme.Cipher)]
	if err1 != nil || err2 != nil || !known || !also || params.Iterations < 1 || params.Iterations > mostRounds {
		return nil, errors.New("its encryption is not supported; convert it with openssl pkcs8 -topk8")
	}
	key, err := pbkdf2.Key(prf, password, params.Salt, params.Iterations, c.length)
	if err != nil {
		return nil, fmt.Errorf("deriving its key: %w", err)
	}
	block, err := c.make(key)
	if err != nil {
		return nil, fmt.Errorf("preparing its cipher: %w", err)
	}
	return unpad(block, iv, outer.Data)
}

func oid(a pkix.AlgorithmIdentifier) string { return a.Algorithm.String() }

// unpad decrypts data and takes the padding off.
func unpad(block cipher.Block, iv, data []byte) ([]byte, error) {
	size := block.BlockSize()
	if len(iv) != size || len(data) == 0 || len(data)%size != 0 {
		return nil, errors.New("its encryption cannot be read")
	}
	plain := make([]byte, len(data))
	cipher.NewCBCDecrypter(block, iv).CryptBlocks(plain, data)
	n := int(plain[len(plain)-1])
	if n < 1 || n > size {
		return nil, errWrongSecret
	}
	for _, b := range plain[len(plain)-n:] {
		if int(b) != n {
			return nil, errWrongSecret
		}
	}
	plain = plain[:len(plain)-n]
	if _, err := x509.ParsePKCS8PrivateKey(plain); err != nil {
		return nil, errWrongSecret
	}
	return plain, nil
}
