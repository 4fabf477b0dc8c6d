package daemon

import (
	"testing"
	"time"

	"vipd/conf"
)

func TestHoldUntil(t *testing.T) {
	started := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	booted := started.Add(-20 * time.Second)
	for _, tt := range []struct {
		startup, boot time.Duration
		want          time.Duration // after the start
		why           string
	}{
		{0, 0, 0, "the end of vrrp_startup_delay"},
		{30 * time.Second, 0, 30 * time.Second, "the end of vrrp_startup_delay"},
		{0, 10 * time.Second, 0, "the end of vrrp_startup_delay"}, // over before the start
		{0, time.Minute, 40 * time.Second, "the end of vrrp_delay_after_boot"},
		{30 * time.Second, 45 * time.Second, 30 * time.Second, "the end of vrrp_startup_delay"},
		{30 * time.Second, time.Minute, 40 * time.Second, "the end of vrrp_delay_after_boot"},
	} {
		got, why := holdUntil(&conf.Global{StartupDelay: tt.startup, DelayAfterBoot: tt.boot}, started, booted)
		if got.Sub(started) != tt.want || why != tt.why {
			t.Errorf("startup %v, boot %v: %v %q, want %v %q", tt.startup, tt.boot, got.Sub(started), why, tt.want, tt.why)
		}
	}
	now := time.Now()
	if up := now.Sub(bootTime(now)); up <= 0 {
		t.Errorf("the machine has been up for %v", up)
	}
}
