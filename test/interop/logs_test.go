package interop

// line is one line of a daemon's log that should not be there.
type line struct {
	director int
	vipd     bool
	text     string
}

func complaints(d *director, e event, news []string) []line {
	var list []line
	for _, l := range news {
		if l != "" {
			list = append(list, line{d.place, d.isVipd(), l})
		}
	}
	return list
}
