package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"vipd/cmd/internal/check"
	"vipd/cmd/internal/daemon"
)

func checkCommand() *cobra.Command {
	var file string
	var strict bool
	c := &cobra.Command{
		Use:   "check",
		Short: "Validate a configuration, also against this machine",
		Long: "Validate a configuration and compare it with this machine (interfaces, kernel). Nothing is changed.\n" +
			"Exit status: 0 good, also with warnings; 2 errors, or with --strict warnings.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, diags := daemon.LoadOnce(file)
			if cfg == nil {
				return &exitError{exitConfig, errors.New("the configuration has errors\n" + strings.TrimSpace(diags.Text()))}
			}
			out := c.OutOrStdout()
			for _, w := range cfg.Warnings {
				fmt.Fprint(out, w.Text())
			}
			machine := append(check.Machine(cfg), daemon.CheckConnections(cfg, os.DirFS("/"))...)
			for _, w := range machine {
				fmt.Fprintf(out, "%s: warning: on this machine: %s\n", file, w)
			}
			warnings := len(cfg.Warnings) + len(machine)
			if strict && warnings > 0 {
				return &exitError{exitConfig, fmt.Errorf("%d warnings, and --strict takes them for errors", warnings)}
			}
			fmt.Fprintf(out, "%s: good: %d files, %d vrrp_instance, %d vrrp_script, %d virtual_server, %d warnings\n",
				file, len(cfg.Files), len(cfg.Instances), len(cfg.Scripts), len(cfg.VirtualServers), warnings)
			return nil
		},
	}
	c.Flags().StringVarP(&file, "config", "c", defaultConfig, "configuration file")
	c.Flags().BoolVar(&strict, "strict", false, "take warnings for errors")
	return c
}
