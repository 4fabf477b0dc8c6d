package status

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// writeTracked prints the track files and processes.
func (s *Status) writeTracked(w io.Writer, now time.Time) error {
	if len(s.TrackFiles) > 0 {
		fmt.Fprintln(w)
		tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(tw, "TRACK FILE\tVALUE\tCHANGED\tFILE\tDETAIL")
		for _, f := range s.TrackFiles {
			value, detail := fmt.Sprint(f.Value), f.Detail
			if !f.Known {
				value = "?"
			}
			if !f.Watched {
				if detail != "" {
					detail += "; "
				}
				detail += "read once a second"
			}
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\n", f.Name, value, age(now, f.Changed), f.File, detail)
		}
		if err := tw.Flush(); err != nil {
			return err
		}
	}
	if len(s.TrackProcesses) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "PROCESS\tSTATE\tCOUNT\tCHANGED\tSOURCE\tDETAIL")
	for _, p := range s.TrackProcesses {
		fmt.Fprintf(tw, "%s\t%s\t%d\t%s\t%s\t%s\n", p.Name, p.State, p.Processes, age(now, p.Changed), p.Source, p.Detail)
	}
	return tw.Flush()
}
