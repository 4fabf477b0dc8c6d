package firewall

// Look is one look at what others did.
func (f *Firewall) Look() { f.look() }
