package leafd

import (
	"os"
	"path/filepath"
	"time"
)

const (
	socketName     = "leafd/leafd.sock" // relative to a directory for sockets
	justGoneWithin = 10 * time.Second
)

// DefaultSocket returns the path that a client without [Options.Socket] uses: $LEAFD_SOCKET if set; for root the system's
// socket; for other users the first existing one of the user's own sockets and the system's.
func DefaultSocket() string {
	return chooseSocket(os.Getenv, os.Geteuid() == 0, exists)
}

func chooseSocket(getenv func(string) string, root bool, exists func(string) bool) (first string) {
	if path := getenv("LEAFD_SOCKET"); path != "" {
		return path
	}
	state := getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) {
		state = filepath.Join(getenv("HOME"), ".local/state")
	}
	for _, folder := range []string{getenv("XDG_RUNTIME_DIR"), state, "/run"} {
		path := filepath.Join(folder, socketName)
		if !filepath.IsAbs(folder) || root && folder != "/run" {
			continue
		} else if exists(path) {
			return path
		} else if first == "" {
			first = path
		}
	}
	return first
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// hasJustGone reports whether a daemon's socket was removed recently: its lock file remains, and the directory has just
// changed.
func hasJustGone(socket string) bool {
	folder, err := os.Stat(filepath.Dir(socket))
	return err == nil && time.Since(folder.ModTime()) < justGoneWithin && exists(socket+".lock")
}
