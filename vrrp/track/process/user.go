package process

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// User is who a program runs as.
type User struct {
	Name   string
	UID    uint32
	GID    uint32
	Groups []uint32 // supplementary groups
	Home   string
}

// Self is the user of this process.
func Self() User {
	u := User{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), Home: "/"}
	u.Name = strconv.Itoa(int(u.UID))
	if known, err := user.LookupId(u.Name); err == nil {
		u.Name, u.Home = known.Username, known.HomeDir
	}
	return u
}

// Lookup finds a user, and the group that stands in place of the user's own; ""
// leaves that one. Both may be numbers, known to the system or not. As in
// keepalived, the program gets no supplementary groups.
func Lookup(name, group string) (User, error) {
	u := User{Name: name, Home: "/"}
	known, err := user.Lookup(name)
	if err != nil {
		if byID, idErr := user.LookupId(name); idErr == nil {
			known, err = byID, nil
		}
	}
	switch n, numErr := strconv.ParseUint(name, 10, 32); {
	case err == nil:
		uid, uidErr := strconv.ParseUint(known.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(known.Gid, 10, 32)
		if uidErr != nil || gidErr != nil {
			return User{}, fmt.Errorf("looking up the user %q: its numbers %q and %q are no numbers", name, known.Uid, known.Gid)
		}
		u.Name, u.UID, u.GID, u.Home = known.Username, uint32(uid), uint32(gid), known.HomeDir
	case numErr == nil:
		u.UID, u.GID = uint32(n), uint32(n)
	default:
		return User{}, fmt.Errorf("looking up the user %q: there is none of that name on this machine", name)
	}
	if group == "" {
		return u, nil
	}
	if u.GID, err = groupID(group); err != nil {
		return User{}, err
	}
	return u, nil
}

// AllGroups gives the user the supplementary groups that the system knows of.
func (u *User) AllGroups() error {
	known, err := user.LookupId(strconv.Itoa(int(u.UID)))
	if err != nil {
		return fmt.Errorf("looking up the groups of %q: %w", u.Name, err)
	}
	ids, err := known.GroupIds()
	if err != nil {
		return fmt.Errorf("looking up the groups of %q: %w", u.Name, err)
	}
	for _, id := range ids {
		if n, err := strconv.ParseUint(id, 10, 32); err == nil {
			u.Groups = append(u.Groups, uint32(n))
		}
	}
	return nil
}

// groupID finds the number of a group.
func groupID(name string) (uint32, error) {
	known, err := user.LookupGroup(name)
	text := name
	if err == nil {
		text = known.Gid
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("looking up the group %q: there is none of that name on this machine", name)
	}
	return uint32(n), nil
}

// credential is what the kernel is asked for; nil when nothing changes.
func (u *User) credential() *syscall.Credential {
	if u == nil || int(u.UID) == os.Geteuid() && int(u.GID) == os.Getegid() && u.Groups == nil {
		return nil
	}
	return &syscall.Credential{Uid: u.UID, Gid: u.GID, Groups: u.Groups}
}
