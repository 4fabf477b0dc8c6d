package vectors_test

import (
	"strings"
	"testing"

	"vipd/vrrp/packet/vectors"
)

func TestParse(t *testing.T) {
	frames, err := vectors.Parse(strings.NewReader(`# ttl: 255
# stop.priority: 0
# priority: 100
# dst: 10.9.0.2, 10.9.0.3
frame advert: 0102
frame stop: ff
`))
	if err != nil || len(frames) != 2 {
		t.Fatalf("got %d frames, err %v", len(frames), err)
	}
	advert, stop := frames[0], frames[1]
	if string(advert.Data) != "\x01\x02" || advert.Get("priority") != "100" || advert.Get("ttl") != "255" {
		t.Errorf("advert: %+v", advert)
	}
	if stop.Get("priority") != "0" || stop.Get("ttl") != "255" || len(stop.List("dst")) != 2 || stop.List("none") != nil {
		t.Errorf("stop: %+v", stop)
	}
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"frame a: 0x":  "line 1",
		"\nnonsense":   "line 2: no",
		"other: value": "line 1: neither",
	} {
		if _, err := vectors.Parse(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
}
