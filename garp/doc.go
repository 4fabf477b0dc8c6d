// Package garp knows how virtual addresses are announced to the network:
// the frames (gratuitous ARP, unsolicited neighbour advertisement) and when
// each is sent. It is pure: time is a parameter, nothing is sent from here.
//
// # When frames are sent
//
//	event                          frames of each present address
//	Announce(BurstMaster)          MasterRepeat at once, again MasterDelay later,
//	                               then RefreshRepeat every Refresh, first at MasterDelay+Refresh
//	Announce(BurstLowerPrio)       LowerPrioRepeat at once, again LowerPrioDelay later
//	Present, while announcing      of this address: MasterRepeat at once, again MasterDelay later
//	link up, re-created, new MAC   of the addresses on it: the same
//	10, 50 and 250 ms after each   one, as a reply, of addresses with a virtual MAC that adverts do not bear
//	every Extra, while MASTER      one, of the first address on each interface that adverts do not leave by
//	Once                           one, of an address that is no virtual one
//	Stop                           none: deadlines end, queued frames are dropped
//
// # In which order
//
// There is one queue for each physical interface and kind (ARP, NA). An
// address that was not announced yet goes before all repeats and refreshes;
// these go round, one frame an address. So the first frame of each address
// leaves before the second of any. As addresses are added one by one when an
// instance becomes MASTER, its repeats wait until all are there, or no more
// have come for a moment (gatherQuiet, gatherMax). The gap between two frames
// of a queue is at least the largest garp_interval (gna_interval) of the
// instances with addresses there. Interfaces of a Group share one queue and the
// gap of the group.
//
// An address asks for at most as many frames as its largest burst, however
// many bursts fall together. An instance owns one deadline of each sort:
// becoming MASTER again moves it and never adds one.
package garp
