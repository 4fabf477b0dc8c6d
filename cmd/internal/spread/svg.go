package spread

import (
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"
)

// Sizes of the drawing, in pixels.
const (
	cellHeight = 18
	fontWidth  = 7.2 // of a character, at 12 px
	margin     = 16
	gap        = 2
)

// WriteSVG draws a table for each spread: a row for each group, a column for all
// up and one for each failure, each cell in the colour of the owner; below it
// the loads.
func (r *Report) WriteSVG(w io.Writer) error {
	var body strings.Builder
	width, y := 0.0, float64(margin)
	for i := range r.Spreads {
		d := drawing{s: &r.Spreads[i], out: &body, top: y}
		right, bottom := d.draw()
		width, y = max(width, right), bottom+2*margin
	}
	if len(r.Spreads) == 0 {
		body.WriteString(text(margin, y+12, "", "there is no vip_spread"))
		width, y = 240, y+2*margin
	}
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" font-family="sans-serif" font-size="12">
<rect width="100%%" height="100%%" fill="#ffffff"/>
%s</svg>
`, width+margin, y, body.String())
	return err
}

// drawing draws one spread.
type drawing struct {
	s   *Spread
	out *strings.Builder
	top float64
}

// draw returns the right and lower edge.
func (d *drawing) draw() (right, bottom float64) {
	columns := d.columns()
	label, cell := d.widths(columns)
	d.out.WriteString(text(margin, d.top+12, "bold", d.s.title()))
	y := d.top + 2*cellHeight
	x := func(column int) float64 { return margin + label + float64(column)*(cell+gap) }
	for i, c := range columns {
		d.out.WriteString(text(x(i), y+13, "bold", c.title()))
	}
	y += cellHeight
	for g, group := range d.s.Groups {
		d.out.WriteString(text(margin, y+13, "", fmt.Sprintf("%s, VRID %d, %s", group.Instance, group.VRID, count(len(group.Addresses), "address", "addresses"))))
		for i, c := range columns {
			weight := ""
			if c.Owners[g] != group.Members[0].Name {
				weight = "bold" // it has moved
			}
			d.box(x(i), y, cell, d.colour(c.Owners[g]))
			d.out.WriteString(text(x(i)+6, y+13, weight, c.Owners[g]))
		}
		y += cellHeight
	}
	y += cellHeight / 2
	for _, director := range d.s.Directors {
		d.box(margin, y, label-8, d.colour(director.Name))
		d.out.WriteString(text(margin+6, y+13, "", fmt.Sprintf("%s, weight %d: groups", director.Name, director.Weight)))
		for i, c := range columns {
			for _, l := range c.Loads {
				if l.Director == director.Name {
					d.out.WriteString(text(x(i)+6, y+13, "", fmt.Sprintf("%d of %.4g", l.Groups, l.Share)))
				}
			}
		}
		y += cellHeight
	}
	return max(x(len(columns)), margin+fontWidth*float64(utf8.RuneCountInString(d.s.title()))), y
}

// columns are all up and the failures of one director.
func (d *drawing) columns() []Scenario {
	var columns []Scenario
	for _, c := range d.s.Scenarios {
		if len(c.Failed) < 2 {
			columns = append(columns, c)
		}
	}
	return columns
}

// widths returns the width of the labels at the left and of a cell.
func (d *drawing) widths(columns []Scenario) (label, cell float64) {
	longest, widest := 0, 12
	for _, g := range d.s.Groups {
		longest = max(longest, utf8.RuneCountInString(g.Instance)+24)
	}
	for _, o := range d.s.Directors {
		longest = max(longest, utf8.RuneCountInString(o.Name)+24)
	}
	for _, c := range columns {
		widest = max(widest, utf8.RuneCountInString(c.title())+1)
	}
	return fontWidth * float64(longest), fontWidth * float64(widest)
}

func (d *drawing) box(x, y, width float64, fill string) {
	fmt.Fprintf(d.out, `<rect x="%.1f" y="%.1f" width="%.1f" height="%d" rx="2" fill="%s"/>`+"\n", x, y, width, cellHeight-gap, fill)
}

// colour returns a light colour of a director, by its place in the list: hues as
// far apart as possible.
func (d *drawing) colour(name string) string {
	for i, o := range d.s.Directors {
		if o.Name == name {
			return light(6 * float64(i) / float64(len(d.s.Directors)))
		}
	}
	return "#dddddd"
}

// light returns a light colour of a hue, 0..6 for red to red. Not every program
// that shows SVG knows hsl().
func light(hue float64) string {
	channel := func(from float64) int {
		x := math.Mod(hue+from, 6)
		full := min(max(min(x, 4-x), 0), 1) // up from 0 to 1, down from 3 to 4
		return 168 + int(80*full)
	}
	return fmt.Sprintf("#%02x%02x%02x", channel(2), channel(0), channel(4))
}

// text returns a text element.
func text(x, y float64, weight, s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a strings.Builder never fails
	if weight != "" {
		weight = ` font-weight="` + weight + `"`
	}
	return fmt.Sprintf(`<text x="%.1f" y="%.1f"%s>%s</text>`+"\n", x, y, weight, b.String())
}
