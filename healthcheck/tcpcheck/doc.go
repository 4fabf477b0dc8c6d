// Package tcpcheck is TCP_CHECK: the server is healthy when a TCP connection
// to it can be made.
package tcpcheck
