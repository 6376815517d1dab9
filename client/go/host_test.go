package leafd

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// host is a directory with a real daemon, which does not outlive the test.
type host struct {
	t        *testing.T
	folder   string
	settings []string
	daemon   *exec.Cmd
}

func root(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func program(t *testing.T, name string) string {
	t.Helper()
	folder := os.Getenv("TESTED_BINARIES")
	if folder == "" {
		folder = filepath.Join(root(t), "target/debug")
	}
	return filepath.Join(folder, name)
}

func newHost(t *testing.T) *host {
	h := &host{t: t, folder: t.TempDir()}
	t.Cleanup(h.kill)
	return h
}

func (h *host) socket() string { return filepath.Join(h.folder, "s") }

func (h *host) maskKey(key string) {
	h.t.Helper()
	file := filepath.Join(h.folder, "keys")
	if err := os.WriteFile(file, []byte(key), 0o600); err != nil {
		h.t.Fatal(err)
	}
	h.settings = append(h.settings, "mask_key_file="+file)
}

// environment returns the environment without the variables that are the daemon's settings.
func (h *host) environment() (kept []string) {
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "LEAFD_") {
			kept = append(kept, variable)
		}
	}
	return append(kept, "LEAFD_SOCKET="+h.socket())
}

func (h *host) start() {
	h.t.Helper()
	// The thread that starts the daemon may end at any time, so the daemon can't be tied to the thread's lifetime.
	arguments := []string{"--socket", h.socket(), "--state-dir", filepath.Join(h.folder, "state"), "--worker", "static:17"}
	for _, setting := range append(h.settings, "worker_lock_dir="+h.folder) {
		arguments = append(arguments, "--set", setting)
	}
	h.daemon = exec.Command(program(h.t, "leafd"), arguments...)
	h.daemon.Env = h.environment()[:len(h.environment())-1]
	log, err := os.OpenFile(filepath.Join(h.folder, "log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		h.t.Fatal(err)
	}
	defer log.Close()
	h.daemon.Stdout, h.daemon.Stderr = log, log
	if err := h.daemon.Start(); err != nil {
		h.t.Fatal(err)
	}
	c, _ := New(Options{Socket: h.socket(), Wait: true})
	defer c.Close()
	if info, err := c.Info(within(h.t, time.Minute)); err != nil || !info.SegmentsReady || !info.SnowflakeReady {
		log, _ := os.ReadFile(filepath.Join(h.folder, "log"))
		h.t.Fatalf("%+v, %v\n%s", info, err, log)
	}
}

func (h *host) leafctl(arguments ...string) string {
	h.t.Helper()
	command := exec.Command(program(h.t, "leafctl"), arguments...)
	command.Env = h.environment()
	said, err := command.CombinedOutput()
	if err != nil {
		h.t.Fatalf("leafctl %v: %v: %s", arguments, err, said)
	}
	return string(said)
}

func (h *host) create(tag string) {
	h.t.Helper()
	h.leafctl("tag", "create", tag)
}

func (h *host) dial() net.Conn {
	h.t.Helper()
	socket, err := net.Dial("unix", h.socket())
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { socket.Close() })
	return socket
}

func (h *host) signal(signal syscall.Signal) {
	h.t.Helper()
	if err := h.daemon.Process.Signal(signal); err != nil {
		h.t.Fatal(err)
	}
}

// stop stops the daemon as its service manager would.
func (h *host) stop() {
	h.t.Helper()
	h.signal(syscall.SIGTERM)
	if err := h.daemon.Wait(); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) kill() {
	if h.daemon != nil {
		h.daemon.Process.Kill()
		h.daemon.Wait()
	}
}

// serving returns a host whose daemon serves the tag orders.
func serving(t *testing.T) *host {
	h := newHost(t)
	h.start()
	h.create("orders")
	return h
}

var _ Generator = (*Client)(nil)

func background() context.Context { return context.Background() }
