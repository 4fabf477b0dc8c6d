// Package router runs virtual routers: one goroutine, that of [Router.Run], owns
// every vrrp.Machine, feeds it events and carries out its actions through small
// ports. Nothing slow happens in it, so adverts are never late: ports must return
// at once.
package router
