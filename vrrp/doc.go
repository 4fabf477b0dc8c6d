// Package vrrp is the protocol engine of one virtual router: [Machine], a state
// machine without I/O, clock or goroutine. The same events at the same times
// always give the same actions, so a failover can be replayed from a text file
// (testdata).
//
// # States and transitions
//
// Section numbers are those of RFC 9568 (Active is MASTER here); RFC 3768 §6.4
// has the same table without the parts marked v3.
//
//	INIT    env usable, owner (255)        §6.4.1 (110)  advert, addresses, announce        -> MASTER
//	INIT    env usable                     §6.4.1 (145)  listen for Master_Down_Interval    -> BACKUP
//	INIT    env pending                                  nothing: a tracker owes a result      INIT
//	INIT    env faulty                                                                      -> FAULT
//	BACKUP  tick                           §6.4.2        advert, addresses, announce        -> MASTER
//	BACKUP  advert, priority 0             §6.4.2        timer := Skew_Time                    BACKUP
//	BACKUP  advert >= ours, or nopreempt   §6.4.2        timer := Master_Down (v3: learn)      BACKUP
//	BACKUP  advert < ours                  §6.4.2        nothing, the timer runs on            BACKUP
//	BACKUP  env faulty                                   timer off                          -> FAULT
//	BACKUP  shutdown                       §6.4.2        timer off                          -> INIT
//	MASTER  tick                           §6.4.3        advert                                MASTER
//	MASTER  advert, priority 0             §6.4.3        advert at once                        MASTER
//	MASTER  advert > ours, or equal and    §6.4.3        stop announcing, remove addresses,
//	        from a higher address                        last advert (v3: learn)            -> BACKUP
//	MASTER  other advert                   §6.4.3        advert at once, announce again        MASTER
//	MASTER  env: priority fell                           advert at once                        MASTER
//	MASTER  env faulty                     §6.4.3        priority 0, stop, remove           -> FAULT
//	MASTER  shutdown                       §6.4.3        priority 0, stop, remove           -> INIT
//	MASTER  shutdown, with a wait                        priority 0, stop; then silent         MASTER
//	MASTER  ... and an advert, or a tick, or faulty      remove                             -> INIT
//	FAULT   env usable                     §6.4.1        as from INIT              -> MASTER, BACKUP
//
// Everything else is impossible and comes back as a Note.
//
// # Where this goes beyond the RFC
//
//   - Listening begins when the environment becomes usable (link up, address there,
//     trackers heard), so NoPreempt holds after a reboot with a slow link.
//   - A losing advert is answered with an advert and announcements. Answers keep
//     min(10 ms, interval/2) apart and announcements 200 ms; what falls between is
//     answered together at the end of it.
//   - A MASTER that yields sends one last advert. It loses by definition, so it
//     moves nothing, but a winner that was deaf to us all along never left MASTER
//     and learns from it that it must announce again.
//   - Adverts keep their schedule: each is due one interval after the last one was
//     due. An advert out of turn starts the schedule anew; so does a pause longer
//     than an interval.
//   - An effective priority that falls and an interval that changes are advertised
//     at once. In BACKUP a changed priority shifts the running timer by the
//     difference of the down intervals.
//   - The interval learned under version 3 ends with the MASTER it was learned from.
//   - A MASTER that is shut down may keep the addresses, mute, until the successor's first
//     advert: between priority 0 and that one lies its skew time, and nobody else would answer.
package vrrp
