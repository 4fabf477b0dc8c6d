package packet

// DropReason says why a received packet is not acted on. The zero value means
// that it is accepted. Its text is a counter name and is stable.
type DropReason uint8

// The reasons. Those up to DropIntervalZero are found in the bytes alone, the
// others need the interface, the instance or the daemon's state.
const (
	DropNone         DropReason = iota // accepted
	DropShort                          // shorter than the fixed header
	DropVersion                        // neither version 2 nor 3
	DropType                           // not an ADVERTISEMENT
	DropLength                         // not as long as count and version demand
	DropChecksum                       // no accepted form of the checksum matches
	DropCount                          // counts no addresses, but has bytes for some
	DropIntervalZero                   // advertisement interval 0
	DropFamily                         // source and destination are not of one family
	DropTTL                            // TTL or hop limit is not 255
	DropInterface                      // arrived on another interface than the socket's
	DropDestination                    // not sent to the socket's group or address
	DropUnknownVRID                    // no instance with this VRID on the interface
	DropWrongVersion                   // valid, but not the version configured
	DropAuthType                       // version 2: another authentication type than ours
	DropAuthData                       // version 2: wrong password
	DropInterval                       // version 2: another interval than ours
	DropOwnSource                      // sent from one of our own addresses
	DropForeign                        // no address in common with us
	DropOverrun                        // more packets waiting than there is room for
	DropNotRunning                     // the instance is not taking part
	DropTrailer                        // authentication trailer of another type, or reserved bits set
	DropKeyID                          // authentication with a key that is not ours
	DropHMAC                           // wrong HMAC
	DropUnsigned                       // no authentication trailer, and one is demanded
	DropSigned                         // an authentication trailer, and no keys for it
	DropStale                          // signed at another time than ours
	DropReplay                         // signed earlier than one that was accepted
	DropOwner                          // we own the addresses and do not listen to others
	DropNotPeer                        // by unicast, but not from one of the peers
	DropTTLRange                       // outside min_ttl..max_ttl of the peer
	DropByMulticast                    // arrived by multicast, the instance has unicast peers
	DropByUnicast                      // arrived by unicast, the instance speaks multicast
	DropTwin                           // sent from the very address that we send from, by another
	dropReasons
)

// NumDropReasons is the number of reasons, DropNone included: the length of an
// array of counters indexed by DropReason.
const NumDropReasons = int(dropReasons)

var dropNames = [NumDropReasons]string{
	DropNone:         "none",
	DropShort:        "short",
	DropVersion:      "version",
	DropType:         "type",
	DropLength:       "length",
	DropChecksum:     "checksum",
	DropCount:        "count",
	DropIntervalZero: "interval_zero",
	DropFamily:       "family",
	DropTTL:          "ttl",
	DropInterface:    "interface",
	DropDestination:  "destination",
	DropUnknownVRID:  "unknown_vrid",
	DropWrongVersion: "wrong_version",
	DropAuthType:     "auth_type",
	DropAuthData:     "auth_data",
	DropInterval:     "interval",
	DropOwnSource:    "own_source",
	DropForeign:      "foreign",
	DropOverrun:      "overrun",
	DropNotRunning:   "not_running",
	DropTrailer:      "trailer",
	DropKeyID:        "key_id",
	DropHMAC:         "hmac",
	DropUnsigned:     "unsigned",
	DropSigned:       "signed",
	DropStale:        "stale",
	DropReplay:       "replay",
	DropOwner:        "owner",
	DropNotPeer:      "not_peer",
	DropTTLRange:     "ttl_range",
	DropByMulticast:  "by_multicast",
	DropByUnicast:    "by_unicast",
	DropTwin:         "duplicate_source",
}

// String returns the reason in snake_case.
func (r DropReason) String() string {
	if int(r) < len(dropNames) {
		return dropNames[r]
	}
	return "unknown"
}
