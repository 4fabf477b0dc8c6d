package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"vipd/cmd/internal/control"
	"vipd/cmd/internal/status"
)

// aboutServers are the commands that tell a running daemon something about real servers.
func aboutServers(at *address) []*cobra.Command {
	return []*cobra.Command{drainCommand(at), undrainCommand(at), weightCommand(at), maintenanceCommand(at)}
}

const (
	serverHelp = "SERVER is an address, or an address with a port; without --service it is meant in every\n" +
		"service that has it. What is told survives reloads and restarts, and is shown in status."
	maxHelp = "at most this long (\"10m\"): then the server goes whatever connections it has; 0: no limit (default: drain_max of the service)"
)

func drainCommand(at *address) *cobra.Command {
	o := control.Order{Action: control.Drain}
	var most time.Duration
	c := orderCommand(at, &o, &cobra.Command{
		Use:   "drain SERVER",
		Short: "Let a real server end its connections and take no new ones",
		Long: "Let a real server end its connections and take no new ones: it gets weight 0 and is removed\n" +
			"from the kernel when it has no connection left, when --max has passed, or at once when its\n" +
			"check fails. Entries of UDP end when no datagram has come for the kernel's UDP timeout.\n" + serverHelp,
		Args: cobra.ExactArgs(1),
	}, nil)
	c.Flags().DurationVar(&most, "max", 0, maxHelp)
	limited(c, &o, &most)
	return c
}

// limited hands --max on if it was given.
func limited(c *cobra.Command, o *control.Order, most *time.Duration) {
	c.PreRunE = func(c *cobra.Command, _ []string) error {
		if *most < 0 {
			return fmt.Errorf("--max %v: a time below 0", *most)
		}
		if c.Flags().Changed("max") {
			o.Max = most
		}
		return nil
	}
}

func undrainCommand(at *address) *cobra.Command {
	return orderCommand(at, &control.Order{Action: control.Undrain}, &cobra.Command{
		Use:   "undrain SERVER",
		Short: "Let a drained real server take connections again",
		Long:  "Let a drained real server take connections again, if its checks pass.\n" + serverHelp,
		Args:  cobra.ExactArgs(1),
	}, nil)
}

func weightCommand(at *address) *cobra.Command {
	o := &control.Order{Action: control.Weight}
	return orderCommand(at, o, &cobra.Command{
		Use:   "weight SERVER N|default",
		Short: "Give a real server another weight",
		Long: "Give a real server another weight, 0..2147483647, while it is healthy; \"default\" is that of the\n" +
			"configuration. With 0 it takes no new connections but stays in the kernel's table.\n" + serverHelp,
		Args: cobra.ExactArgs(2),
	}, func(arg string) error {
		if arg == "default" {
			return nil
		}
		n, err := strconv.ParseUint(arg, 10, 31)
		if err != nil {
			return fmt.Errorf("weight %q: want a number 0..2147483647, or default", arg)
		}
		w := int(n)
		o.Weight = &w
		return nil
	})
}

func maintenanceCommand(at *address) *cobra.Command {
	o := control.Order{Action: control.Maintenance}
	var most time.Duration
	c := orderCommand(at, &o, &cobra.Command{
		Use:   "maintenance SERVER on|off",
		Short: "Drain a real server and tell nobody of its health meanwhile",
		Long: "Drain a real server, and keep its checks' results out of mail, FIFOs and notify commands\n" +
			"until it is off.\n" + serverHelp,
		Args:      cobra.ExactArgs(2),
		ValidArgs: []string{"on", "off"},
	}, func(arg string) error {
		if arg != "on" && arg != "off" {
			return fmt.Errorf("maintenance %q: want on or off", arg)
		}
		o.On = arg == "on"
		return nil
	})
	c.Flags().DurationVar(&most, "max", 0, maxHelp)
	limited(c, &o, &most)
	return c
}

// orderCommand makes a command that sends an order; second reads the word behind SERVER.
func orderCommand(at *address, o *control.Order, c *cobra.Command, second func(string) error) *cobra.Command {
	c.RunE = func(c *cobra.Command, args []string) error {
		o.Server = args[0]
		if second != nil {
			if err := second(args[1]); err != nil {
				return err
			}
		}
		text, err := control.NewClient(at.path()).Order(c.Context(), *o)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(c.OutOrStdout(), text)
		return err
	}
	words := c.ValidArgs
	c.ValidArgs = nil
	c.ValidArgsFunction = func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 1 {
			return words, cobra.ShellCompDirectiveNoFileComp
		}
		if len(args) > 1 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		servers, _ := knownServers(c, at)
		return servers, cobra.ShellCompDirectiveNoFileComp
	}
	c.Flags().StringVar(&o.Service, "service", "", "only in this service: its name, \"tcp ADDRESS:PORT\", \"fwmark N inet\" or ADDRESS:PORT")
	// The flag was added above; registering can fail for no other reason.
	_ = c.RegisterFlagCompletionFunc("service", func(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		_, services := knownServers(c, at)
		return services, cobra.ShellCompDirectiveNoFileComp
	})
	return at.flag(c)
}

// knownServers asks the daemon for the servers and services that it has, for completion.
func knownServers(c *cobra.Command, at *address) (servers, services []string) {
	body, err := control.NewClient(at.path()).Status(c.Context())
	var s status.Status
	if err != nil || json.Unmarshal(body, &s) != nil {
		return nil, nil
	}
	for _, v := range s.VirtualServers {
		services = append(services, v.Name)
		for _, r := range v.RealServers {
			servers = append(servers, r.Address)
		}
	}
	slices.Sort(servers)
	return slices.Compact(servers), services
}
