package firewall

// New returns the firewall of the vipd with this state directory; nothing happens before the first call.
// E.g. f := New(OpenKernel(), Options{}, "/run/vipd", log).

// Refuse replaces the refused addresses, all of them at once, and returns when the kernel has the rules.
//
//	func (f *Firewall) Refuse(addresses []Address) error

// Silence replaces the silenced links, all of them at once, and returns when the kernel has the rules. A link need not
// exist yet. The wish is kept when it fails (Run tries again); the error says why, errors.Is(err, ErrUnsupported)
// when the kernel cannot.
//
//	func (f *Firewall) Silence(links []Link) error

// Configure changes table name, priority and counters in place, without a moment without rules.
//
//	func (f *Firewall) Configure(o Options) error

// Sweep removes what a crashed predecessor left; Release removes everything at stop; Run(ctx) repairs.
