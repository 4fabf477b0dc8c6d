// Package fib holds the routes and rules that move with virtual addresses, and those
// that are there in every state: what they are ([Route], [Rule]), when a reading of the
// kernel shows them ([State]), and what is to be done about the difference ([Book]).
//
// # Whose route is it
//
// Routes and rules that vipd adds carry protocol 18 (RTPROT_KEEPALIVED), unless they are
// configured with another one. One is vipd's, and only then ever removed, when vipd
// added it, when a predecessor with the same state file did, or when it equals a
// configured one that carries protocol 18. One of others that is in the way stays: an
// IPv4 route comes before or after it, as configured; IPv6 has one route for a
// destination and metric, and the kernel adds ours to it as a next hop more.
//
// A route that the kernel drops with a link or an address is put back as soon as it can
// be there, and that counts as no fight. One that is lost otherwise is put back at once;
// a fourth time within ten seconds is a fight, see [EventFought].
//
// The package is pure.
package fib
