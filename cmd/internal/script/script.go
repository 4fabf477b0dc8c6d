// Package script settles who runs an operator's commands, for the daemon that runs
// them and the check that looks at them beforehand.
package script

import (
	"fmt"
	"os"
	"os/user"

	"vipd/conf"
	"vipd/vrrp/track/process"
)

// DefaultUser runs commands when it exists and script_user is not set, as under
// keepalived.
const DefaultUser = "keepalived_script"

// User finds who runs a command that names own as its user (zero: nobody). It is
// nil for the user of vipd itself.
func User(g conf.Global, own conf.User) (*process.User, error) {
	if own.Name == "" {
		own = g.ScriptUser
	}
	if own.Name == "" {
		if _, err := user.Lookup(DefaultUser); err != nil {
			return nil, nil // the usual case: nobody is asked for, and there is no such user
		}
		own.Name = DefaultUser
	}
	u, err := process.Lookup(own.Name, own.Group)
	if err == nil && g.ScriptGroups {
		err = u.AllGroups()
	}
	if err != nil {
		return nil, err
	}
	return &u, nil
}

// Check tells why a command could not run here, or nil.
func Check(g conf.Global, argv []string, own conf.User) error {
	u, err := User(g, own)
	if err != nil {
		return err
	}
	uid := uint32(os.Geteuid())
	if u != nil {
		uid = u.UID
	}
	err = process.Secure(argv[0], uid)
	if insecure, ok := err.(*process.InsecureError); ok {
		if !g.ScriptSecurity {
			return nil
		}
		return insecure
	}
	if err != nil {
		return fmt.Errorf("it cannot be run: %w", err)
	}
	return nil
}
