package vrrp

import "time"

// defaultDownTimerAdverts is the number of missed adverts of RFC 9568 §6.1.
const defaultDownTimerAdverts = 3

// SkewTime is the Skew_Time of a router with the given effective priority
// (255 for an owner), exact to the nanosecond.
//
// Version 2 (RFC 3768 §6.1): (256 - priority) / 256 seconds whatever the interval.
// Version 3 (RFC 9568 §6.1): (256 - priority) * interval / 256, where interval is
// that of the master.
func SkewTime(version, priority uint8, interval time.Duration) time.Duration {
	if version == 2 {
		interval = time.Second
	}
	return time.Duration(256-int64(priority)) * interval / 256
}

// MasterDownInterval is how long a BACKUP waits for an advert: adverts intervals
// of the master plus SkewTime (RFC 3768 §6.1, RFC 9568 §6.1; the RFCs fix adverts
// at 3). Under version 2 interval is the router's own.
func MasterDownInterval(version, priority uint8, interval time.Duration, adverts int) time.Duration {
	if adverts <= 0 {
		adverts = defaultDownTimerAdverts
	}
	return time.Duration(adverts)*interval + SkewTime(version, priority, interval)
}

// EffectivePriority is the configured priority plus the weights of the trackers,
// held within 1..254. An owner (255) stays 255 whatever the trackers say: it may
// not fall below a router that does not own the addresses.
func EffectivePriority(priority uint8, weight int) uint8 {
	if priority == OwnerPriority {
		return OwnerPriority
	}
	return uint8(min(max(int(priority)+weight, 1), OwnerPriority-1))
}
