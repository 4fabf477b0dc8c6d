package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"vipd/cmd/internal/control"
	"vipd/cmd/internal/status"
)

func statusCommand(at *address) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "status",
		Short: "Show who owns what and why, services and servers",
		Long:  "Show who owns what and why, services and servers.\nExit status 3 when no daemon answers on the control socket.",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			body, err := control.NewClient(at.path()).Status(c.Context())
			if errors.Is(err, control.ErrNotRunning) {
				return &exitError{exitNotRunning, err}
			}
			if err != nil {
				return err
			}
			if asJSON {
				_, err = c.OutOrStdout().Write(body)
				return err
			}
			var s status.Status
			if err := json.Unmarshal(body, &s); err != nil {
				return fmt.Errorf("reading the daemon's answer: %w", err)
			}
			return s.WriteText(c.OutOrStdout(), time.Now())
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON with stable names")
	return at.flag(c)
}

func reloadCommand(at *address) *cobra.Command {
	return at.flag(&cobra.Command{
		Use:   "reload",
		Short: "Make the daemon read its configuration again",
		Long:  "Make the daemon read its configuration again and print what changed.\nA configuration with errors is refused; the running one stays.",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			text, err := control.NewClient(at.path()).Reload(c.Context())
			if err != nil {
				return err
			}
			fmt.Fprintln(c.OutOrStdout(), text)
			return nil
		},
	})
}
