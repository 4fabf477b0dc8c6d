// Package connsync keeps the sync daemons of the kernel as they are wanted, and finds out what the kernel does not tell:
// whether anybody hears them.
//
// The kernel has two threads. The master sends news of the connections here to a multicast group, the backup takes what
// others send. [Manager.Run] compares what runs with what is wanted every [Period], starts and stops no more than what
// differs, and starts anew what stands on an interface that was made anew.
//
// After a change of role both go on for a while (Config.Linger): a kernel that stops its master throws away what it has
// not sent yet, which is up to two seconds of connections, and the new master is to hear these.
//
// The kernel says nothing when the group cannot be reached, when no one answers to the same sync id, or when the other
// director is silent. The manager therefore listens to the group with a socket of its own and sends a hello, a sync
// message without connections, every [HelloPeriod], by the same route as the kernel's: an error of the hello is one of
// the kernel's, too. Kernels ignore it. A kernel alone (keepalived) sends no hello, and nothing while it has no
// connections.
package connsync
