package packet

import (
	"crypto/subtle"
	"time"
)

// Policy is what one instance demands of an advert beyond valid bytes. The
// zero value of each field but Version is the strict one.
type Policy struct {
	// Version is the configured one, Version2 or Version3.
	Version uint8
	// AnyTTL accepts every TTL or hop limit: unicast, where a router may lie
	// between the peers. Otherwise it must be 255.
	AnyTTL bool
	// AuthPass is version 2's password, at most 8 bytes; empty for none.
	AuthPass string
	// Interval is the configured interval, which version 2 wants equal
	// (RFC 3768 §7.1). Version 3 learns the sender's and does not look at it.
	Interval time.Duration
}

// Verify makes the checks of a decoded advert that need the instance's
// configuration, in the order TTL, version, authentication, interval, and
// returns DropNone or the first that failed. The password is compared in
// constant time.
func Verify(a *Advert, p Policy, ttl uint8) DropReason {
	if !p.AnyTTL && ttl != TTL {
		return DropTTL
	}
	if a.Version != p.Version {
		return DropWrongVersion
	}
	if a.Version != Version2 {
		return DropNone
	}
	var want Advert
	want.SetPassword(p.AuthPass)
	if a.AuthType != want.AuthType {
		return DropAuthType
	}
	if a.AuthType == AuthPass && subtle.ConstantTimeCompare(a.AuthData[:], want.AuthData[:]) != 1 {
		return DropAuthData
	}
	if a.Interval != p.Interval {
		return DropInterval
	}
	return DropNone
}
