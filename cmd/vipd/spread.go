package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"vipd/cmd/internal/daemon"
	"vipd/cmd/internal/spread"
)

func spreadCommand() *cobra.Command {
	var file, old string
	var asJSON, asSVG bool
	c := &cobra.Command{
		Use:   "spread [NAME]",
		Short: "Show who owns what of a vip_spread, now and after each failure",
		Long: "Show which director owns which group of addresses of each vip_spread (or of the one called NAME)\n" +
			"when all directors are up, and after each failure. It is the plan of the file: nothing is asked of a\n" +
			"running daemon, and this machine need not be one of the directors. With --old it also shows what moves\n" +
			"when the file takes the place of another, and warns when the two must not run side by side.\n" +
			"Exit status: 0 good, 2 the configuration has errors.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			cfg, diags := daemon.View(file)
			if cfg == nil {
				return &exitError{exitConfig, errors.New("the configuration has errors\n" + strings.TrimSpace(diags.Text()))}
			}
			name := ""
			if len(args) > 0 {
				name = args[0]
			}
			report := spread.New(file, cfg, name)
			if name != "" && len(report.Spreads) == 0 {
				return &exitError{exitConfig, fmt.Errorf("%s: there is no vip_spread %q; leave the name out to see all", file, name)}
			}
			if old != "" {
				before, diags := daemon.View(old)
				if before == nil {
					return &exitError{exitConfig, errors.New("the configuration has errors\n" + strings.TrimSpace(diags.Text()))}
				}
				report.Compare(spread.New(old, before, name))
			}
			out := c.OutOrStdout()
			switch {
			case asJSON:
				e := json.NewEncoder(out)
				e.SetIndent("", "  ")
				return e.Encode(report)
			case asSVG:
				return report.WriteSVG(out)
			}
			return report.WriteText(out)
		},
	}
	f := c.Flags()
	f.StringVarP(&file, "config", "c", defaultConfig, "configuration file")
	f.StringVar(&old, "old", "", "an older file to compare with")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	f.BoolVar(&asSVG, "svg", false, "print a drawing")
	c.MarkFlagsMutuallyExclusive("json", "svg")
	return c
}
