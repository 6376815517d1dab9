package leafd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// Causes of failures that the daemon did not report. Test for them with [errors.Is].
var (
	// ErrUnreachable means that no connection to the daemon could be made.
	ErrUnreachable = errors.New("daemon unreachable")
	// ErrDisconnected means that the connection broke, and the connections of all retries broke too.
	ErrDisconnected = errors.New("connection lost")
	// ErrProtocol means that the peer violated leafd's protocol.
	ErrProtocol = errors.New("protocol error")
	// ErrClosed means that the client has been closed.
	ErrClosed = errors.New("client is closed")
	// ErrInvalid means that an argument is outside its limits.
	ErrInvalid = errors.New("invalid argument")
)

// Error is the type of all errors that a client returns.
//
// [errors.Is] matches it against a [Status] and against the causes above. It also matches [context.Canceled] or
// [context.DeadlineExceeded] if the caller's context ended the call, and [os.ErrDeadlineExceeded] if [Options.Timeout]
// did.
type Error struct {
	// Status is the daemon's answer. It is StatusOK if the client reports the failure itself.
	Status Status
	// RetryAfter is the daemon's estimate of when a retry may succeed, or 0.
	RetryAfter time.Duration
	// Message says what failed, why, and what to do.
	Message string
	// Cause is the underlying error, or nil.
	Cause error
}

func (e *Error) Error() string {
	if e.Status == StatusOK {
		return "leafd: " + e.Message
	}
	return e.Status.Error() + ": " + e.Message
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Is reports whether the target is the status of this error.
func (e *Error) Is(target error) bool {
	status, ok := target.(Status)
	return ok && status == e.Status && status != StatusOK
}

// Retryable reports whether the same call may succeed later without any other action. It is false if the caller's context
// has ended, because the same call would fail at once.
func (e *Error) Retryable() bool {
	is := func(cause error) bool { return errors.Is(e.Cause, cause) }
	if is(os.ErrPermission) || is(context.Canceled) || is(context.DeadlineExceeded) {
		return false
	} else if e.Status != StatusOK {
		return e.Status.Retryable()
	}
	return is(ErrUnreachable) || is(ErrDisconnected) || is(os.ErrDeadlineExceeded)
}

// Timeout reports whether the call timed out.
func (e *Error) Timeout() bool {
	return e.Status == StatusDeadline || errors.Is(e.Cause, os.ErrDeadlineExceeded) ||
		errors.Is(e.Cause, context.DeadlineExceeded)
}

func invalid(format string, args ...any) *Error {
	return &Error{Message: fmt.Sprintf(format, args...), Cause: ErrInvalid}
}

var errClosed = &Error{Message: "this client is closed", Cause: ErrClosed}

func broken(what string) *Error {
	return &Error{Message: "the peer broke leafd's protocol: " + what +
		"; check that the socket belongs to leafd and that the versions of client and daemon match", Cause: ErrProtocol}
}

// Status is the outcome of a request, by its number in the protocol. Treat an unknown number like StatusInternal.
type Status uint16

// The statuses of the protocol. The numbers never change.
const (
	StatusOK               Status = iota
	StatusMalformed               // The daemon could not parse the request.
	StatusUnknownOpcode           // The daemon does not know this kind of request.
	StatusVersion                 // Client and daemon have no protocol version in common.
	StatusFrameLength             // A length field is out of range.
	StatusTagInvalid              // The tag's name is invalid.
	StatusTagUnknown              // The store has no such tag.
	StatusCountInvalid            // The count is zero or above the limit.
	StatusDenied                  // This user has no right to do this.
	StatusOverloaded              // A queue is full.
	StatusDeadline                // The deadline passed; the message says what the request was waiting for.
	StatusStoreUnavailable        // The store is unavailable.
	StatusClockBehind             // The clock is too far behind the last id.
	StatusNoWorker                // The daemon has no worker number; the message says why.
	StatusTagExhausted            // All ids up to the tag's ceiling are used.
	StatusTimeExhausted           // The current time doesn't fit into the layout's time bits.
	StatusJournal                 // The daemon's state directory is not writable.
	StatusShuttingDown            // The daemon is stopping.
	StatusTagExists               // A tag of this name already exists.
	StatusValueRefused            // A value is not allowed, for example a mistyped public id.
	StatusInternal                // A bug in the daemon.
	StatusConnectionLimit         // The daemon has reached its connection limit.
	StatusStoreRefused            // The store's data for this tag can't be used safely.
	StatusMaskKey                 // The daemon has no key for masking, or its key differs from the one that the store knows.
)

var statusNames = [...]string{"OK", "MALFORMED", "UNKNOWN_OPCODE", "VERSION", "FRAME_LENGTH", "TAG_INVALID", "TAG_UNKNOWN",
	"COUNT_INVALID", "DENIED", "OVERLOADED", "DEADLINE", "STORE_UNAVAILABLE", "CLOCK_BEHIND", "NO_WORKER", "TAG_EXHAUSTED",
	"TIME_EXHAUSTED", "JOURNAL", "SHUTTING_DOWN", "TAG_EXISTS", "VALUE_REFUSED", "INTERNAL", "CONNECTION_LIMIT",
	"STORE_REFUSED", "MASK_KEY"}

// String returns the protocol's name of the status.
func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return fmt.Sprintf("status %d, unknown to this client", uint16(s))
}

func (s Status) Error() string { return "leafd: " + s.String() }

// Retryable reports whether the same request for ids may succeed later without any other action.
func (s Status) Retryable() bool {
	return s >= StatusOverloaded && s <= StatusNoWorker || s == StatusJournal || s == StatusShuttingDown ||
		s == StatusConnectionLimit
}

// closes reports whether the daemon closes the connection after an answer with this status.
func (s Status) closes() bool {
	return s == StatusVersion || s == StatusFrameLength || s == StatusShuttingDown || s == StatusConnectionLimit
}
