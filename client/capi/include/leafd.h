/*
 * leafd: unique 64-bit ids from the daemon of this host.
 *
 *     leafd_client *client = NULL;
 *     uint64_t id = 0;
 *     if (leafd_new(NULL, LEAFD_TIMEOUT_DEFAULT, 0, &client) != LEAFD_STATUS_OK
 *         || leafd_next(client, "orders", &id) != LEAFD_STATUS_OK) {
 *         char why[512];
 *         leafd_error_message(why, sizeof why);
 *         fprintf(stderr, "no id: %s\n", why);
 *     }
 *     leafd_free(client);
 *
 * Handles. `leafd_client` and `leafd_tag` are opaque. What `..._new` makes, its `..._free` ends, once. Every pointer is
 * checked for NULL; freed handles and pointers to other things are refused as far as memory can tell, which is no
 * licence: a pointer into the void crashes.
 *
 * Results. Calls return a `leafd_status`; `LEAFD_STATUS_OK` is 0. Outputs are written only then. After another status,
 * `leafd_error_message()` and its siblings tell this thread more, and the calls that end in `_e`, or have an
 * `error`, tell it in a structure of the caller's. A failed call used up no id that another could return.
 *
 * Threads. Any number of threads may use one handle at once, as long as none of them frees it. A thread must not be
 * cancelled (`pthread_cancel`) in a call.
 *
 * Time. A call that waits ends by its timeout (and 250 ms of grace). Signals interrupt no call: it goes on waiting, unless
 * an interpreter wants it otherwise (`leafd_set_interpreter()`).
 * The library starts no thread and sets no signal handler; writing to a daemon that is gone raises no SIGPIPE.
 *
 * Forks. Handles are good in a forked child as they are, whatever the parent's threads were doing: the child makes its
 * own connection and never gets an id that its parent held. (But not after a fork from a signal handler that interrupted
 * a call.) Its parent's descriptor is closed in the child only while its number still names the parent's socket.
 * Descriptors are close-on-exec; vfork and posix_spawn are safe, as nothing runs in between. Ids that a program has
 * drawn into its own memory are the program's to keep apart. Where the kernel refuses to wipe memory on fork
 * (MADV_WIPEONFORK), or only says that it will, as qemu does for programs of another kind of machine, a fork handler and
 * the process id do instead; where that can't be had, no ids are held.
 *
 * Signals. Only calls that say so may be made in signal handlers.
 *
 * Made by cbindgen from the library's source: change that.
 */


#ifndef LEAFD_H
#define LEAFD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * The ABI that this header describes. It is the number in the library's name (`libleafd.so.1`), and changes only if
 * programs must be recompiled. `leafd_abi_version()` returns the library's.
 */
#define LEAFD_ABI_VERSION 1

/**
 * As a timeout: the client's own, as given to `leafd_new()`.
 */
#define LEAFD_TIMEOUT_DEFAULT UINT32_MAX

/**
 * For `leafd_new()` and `leafd_tag_new()`: every id is drawn directly, by a request of its own. Ids of a tag are then
 * strictly increasing on this host, and take microseconds instead of nanoseconds.
 */
#define LEAFD_DIRECT 1

/**
 * For `leafd_new()`: a waiting thread sleeps at once. Otherwise, and only while requests come back to back, it may
 * first poll the socket for up to 100 microseconds, or yield its core to other threads and look again.
 */
#define LEAFD_NO_POLLING 2

/**
 * Room for the message in a `leafd_error`, including its zero.
 */
#define LEAFD_ERROR_MESSAGE_BYTES 1024

/**
 * This bit in the result of `leafd_loop_take()`, beside the id, means: ask for the next run now.
 */
#define LEAFD_LOOP_REFILL 9223372036854775808ull

/**
 * Room for a public id as text, including its zero: more than the longest one needs.
 */
#define LEAFD_PUBLIC_ID_BYTES 64

/**
 * The outcome of a call. A number is assigned once and never reused.
 *
 * Up to 999: the daemon's answer, with the numbers of leafd's protocol. From 1000 on: what the library found.
 * Later releases may add numbers: treat an unknown one like `LEAFD_STATUS_INTERNAL`.
 */
typedef enum leafd_status {
    /**
     * Done; the outputs are written.
     */
    LEAFD_STATUS_OK = 0,
    /**
     * The body doesn't fit the opcode.
     */
    LEAFD_STATUS_MALFORMED = 1,
    /**
     * The daemon doesn't know the request: it is older than the library.
     */
    LEAFD_STATUS_UNKNOWN_OPCODE = 2,
    /**
     * The library and the daemon have no protocol version in common.
     */
    LEAFD_STATUS_VERSION = 3,
    /**
     * A length field is out of range.
     */
    LEAFD_STATUS_FRAME_LENGTH = 4,
    /**
     * The tag's name is invalid.
     */
    LEAFD_STATUS_TAG_INVALID = 5,
    /**
     * The store has no such tag.
     */
    LEAFD_STATUS_TAG_UNKNOWN = 6,
    /**
     * The count is zero or above the limit.
     */
    LEAFD_STATUS_COUNT_INVALID = 7,
    /**
     * This user may not do this.
     */
    LEAFD_STATUS_DENIED = 8,
    /**
     * One of the daemon's queues is full. A retry may help.
     */
    LEAFD_STATUS_OVERLOADED = 9,
    /**
     * The deadline passed in the daemon; the message says what the request waited for. A retry may help.
     */
    LEAFD_STATUS_DEADLINE = 10,
    /**
     * The central store can't be reached. A retry may help.
     */
    LEAFD_STATUS_STORE_UNAVAILABLE = 11,
    /**
     * The clock is further behind the last id than the daemon allows. A retry may help.
     */
    LEAFD_STATUS_CLOCK_BEHIND = 12,
    /**
     * The daemon holds no snowflake worker id; the message says why. A retry may help.
     */
    LEAFD_STATUS_NO_WORKER = 13,
    /**
     * The tag's numbers are used up.
     */
    LEAFD_STATUS_TAG_EXHAUSTED = 14,
    /**
     * The layout's time bits are used up, or the clock is before its epoch.
     */
    LEAFD_STATUS_TIME_EXHAUSTED = 15,
    /**
     * The daemon's state directory can't be written. A retry may help.
     */
    LEAFD_STATUS_JOURNAL = 16,
    /**
     * The daemon is stopping, and no other one started in time. A retry may help.
     */
    LEAFD_STATUS_SHUTTING_DOWN = 17,
    /**
     * A tag of this name exists already.
     */
    LEAFD_STATUS_TAG_EXISTS = 18,
    /**
     * A value in an administrative request is not allowed.
     */
    LEAFD_STATUS_VALUE_REFUSED = 19,
    /**
     * A defect in the daemon; also a status that this library doesn't know.
     */
    LEAFD_STATUS_INTERNAL = 20,
    /**
     * The daemon has reached its connection limit. A retry may help.
     */
    LEAFD_STATUS_CONNECTION_LIMIT = 21,
    /**
     * The store answered with something that can't be used safely.
     */
    LEAFD_STATUS_STORE_REFUSED = 22,
    /**
     * The daemon lacks the key for masking, or its key is not the one that the store records.
     */
    LEAFD_STATUS_MASK_KEY = 23,
    /**
     * No connection could be made: no daemon listens, or this user may not open the socket.
     */
    LEAFD_STATUS_CONNECT = 1000,
    /**
     * The connection broke while the call waited, and again after a retry. A retry may help.
     */
    LEAFD_STATUS_DISCONNECTED = 1001,
    /**
     * No answer came within the timeout. A retry may help.
     */
    LEAFD_STATUS_TIMEOUT = 1002,
    /**
     * The peer sent something that is not leafd's protocol.
     */
    LEAFD_STATUS_PROTOCOL = 1003,
    /**
     * An argument is invalid.
     */
    LEAFD_STATUS_INVALID_ARGUMENT = 1004,
    /**
     * A limit of the library or the system was reached.
     */
    LEAFD_STATUS_RESOURCES = 1005,
    /**
     * A required pointer is NULL.
     */
    LEAFD_STATUS_NULL_POINTER = 1006,
    /**
     * A pointer is no handle of its kind: it has been freed, or never was one. Found as far as memory can tell.
     */
    LEAFD_STATUS_HANDLE = 1007,
    /**
     * A defect in the library.
     */
    LEAFD_STATUS_PANIC = 1008,
    /**
     * The interpreter ended the call after a signal; see `leafd_set_interpreter()`.
     */
    LEAFD_STATUS_INTERRUPTED = 1009,
} leafd_status;

/**
 * A process's access to the daemon: one connection for all threads, made on first use, and the ids that the process
 * holds.
 */
typedef struct leafd_client leafd_client;

/**
 * One tag of a client: the fastest way to draw many ids.
 */
typedef struct leafd_tag leafd_tag;

/**
 * A call's error. After `LEAFD_STATUS_OK` it has that status, an empty message and zeros.
 */
typedef struct leafd_error {
    /**
     * The status that the call returned.
     */
    uint32_t status;
    /**
     * After how many milliseconds a retry may succeed; 0: unknown.
     */
    uint32_t retry_after_ms;
    /**
     * The system's error number (an `errno`) that caused it; 0: none.
     */
    int32_t os_error;
    /**
     * Whether the same call may succeed later without any repair.
     */
    bool retryable;
    /**
     * What was tried, what happened, what to do: UTF-8 that ends with a zero, cut between characters if need be.
     */
    char message[LEAFD_ERROR_MESSAGE_BYTES];
} leafd_error;

/**
 * How to release and take an interpreter's lock, and how to run its signal handlers. None may be NULL.
 */
typedef struct leafd_interpreter {
    /**
     * Releases the lock. Returns the argument for `enter`.
     */
    void *(*leave)(void);
    /**
     * Takes the lock again.
     */
    void (*enter)(void*);
    /**
     * Called with the lock after a signal: runs the handlers. Not 0: the call ends, with `INTERRUPTED`.
     */
    int (*check)(void);
} leafd_interpreter;

/**
 * How snowflake ids are composed: a sign bit of 0, then time, worker and sequence. Time counts ticks.
 */
typedef struct leafd_layout {
    /**
     * Bits of the time field, from 1.
     */
    uint8_t time_bits;
    /**
     * Bits of the worker field.
     */
    uint8_t worker_bits;
    /**
     * Bits of the sequence field, from 1. All three fields together: at most 63.
     */
    uint8_t sequence_bits;
    /**
     * Length of a tick in milliseconds, 1 to 3600000.
     */
    uint32_t tick_ms;
    /**
     * Where time starts, in milliseconds of Unix time.
     */
    uint64_t epoch_ms;
} leafd_layout;

/**
 * A snowflake id taken apart.
 */
typedef struct leafd_parts {
    /**
     * Ticks since the layout's epoch.
     */
    uint64_t tick;
    /**
     * The worker that issued it.
     */
    uint64_t worker;
    /**
     * Its number within tick and worker.
     */
    uint64_t sequence;
    /**
     * When its tick starts, in milliseconds of Unix time.
     */
    uint64_t unix_ms;
} leafd_parts;

/**
 * The form of public ids. All zeros: 63 bits, the daemon's current key, and texts without a prefix.
 */
typedef struct leafd_public_form {
    /**
     * The width of dense and public ids in bits: 20 to 63, 53 for JavaScript's numbers; 0: 63.
     */
    uint32_t bits;
    /**
     * The number of the key, 1 to 31; 0: the daemon's current one. Texts contain the number, so it is ignored when
     * they are read.
     */
    uint32_t key;
    /**
     * The prefix of texts, before a `_`: a letter and further `a` to `z`, `0` to `9` or `_`; NULL or "": none.
     */
    const char *prefix;
} leafd_public_form;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The library's `LEAFD_ABI_VERSION`. Safe at any time, also in signal handlers.
 */
uint32_t leafd_abi_version(void);

/**
 * The library's release, such as "0.1.0". The text stays valid for ever. Safe at any time, also in signal handlers.
 */
const char *leafd_version(void);

/**
 * Makes a client. It connects on first use; `leafd_connect()` connects at once.
 *
 * `socket_path`: the daemon's socket, 1 to 107 bytes; NULL: `$LEAFD_SOCKET`, otherwise where a daemon of this user or
 * of the system listens. `timeout_ms`: how long calls without a timeout of their own may take, in milliseconds, at
 * most 60000 (more is cut); `LEAFD_TIMEOUT_DEFAULT`: 2000. After the timeout, a call waits up to 250 ms more for the
 * daemon's own answer why. `flags`: 0, `LEAFD_DIRECT`, `LEAFD_NO_POLLING` or their sum.
 *
 * Writes the client to `client`; end it with `leafd_free()`. Errors: `NULL_POINTER`, `INVALID_ARGUMENT`, `RESOURCES`.
 * Any thread; not for signal handlers.
 *
 * # Safety
 * `socket_path` is NULL or ends with a zero; `client` is valid for a write.
 */
enum leafd_status leafd_new(const char *socket_path,
                            uint32_t timeout_ms,
                            uint32_t flags,
                            struct leafd_client **client);

/**
 * As `leafd_new()`, for a process that may start before the daemon does. Calls without a timeout of their own wait up
 * to `wait_ms` milliseconds, at most 3600000 (more is cut), for a missing daemon before their timeout begins to count.
 * If `wait_ms` is less than their timeout, they wait as long as their timeout.
 *
 * With 0, as in `leafd_new()`, a daemon that was never there is an error at once. A daemon that seems to be restarting
 * is waited for even so, as long as the timeout lasts: if this client has been connected before, if a socket is left
 * that no daemon listens on, and if one was removed in the last ten seconds.
 *
 * # Safety
 * As for `leafd_new()`.
 */
enum leafd_status leafd_new_waiting(const char *socket_path,
                                    uint32_t timeout_ms,
                                    uint32_t wait_ms,
                                    uint32_t flags,
                                    struct leafd_client **client);

/**
 * Ends a client. Tags made from it still work, and keep the connection until the last of them is freed.
 *
 * NULL is allowed. Errors: `HANDLE`. No other thread may be in a call with this client. A forked child may free its
 * parent's client: the parent's own is not affected. Not for signal handlers.
 *
 * # Safety
 * `client` is NULL, or was made by `leafd_new()` and is not in use.
 */
enum leafd_status leafd_free(struct leafd_client *client);

/**
 * Connects if there is no connection, and agrees with the daemon on the protocol's version.
 *
 * Errors: `VERSION`, or the reason why the daemon did not answer. Any thread; not for signal handlers.
 *
 * # Safety
 * `client` is a live client.
 */
enum leafd_status leafd_connect(const struct leafd_client *client);

/**
 * The next id of `tag`: a number from 1 to 2^63-1, and unique. Most ids come from a run that the process holds, in
 * nanoseconds. Ids of different threads and processes are then not in order of time.
 *
 * `tag`: UTF-8, 1 to 128 characters, none of them a control character. A client uses at most 65536 different tags.
 *
 * Writes the id to `id`. Errors: `NULL_POINTER`, `HANDLE`, `INVALID_ARGUMENT`, or the reason why the daemon did not
 * answer. Any thread; not for signal handlers. `leafd_tag_next()` saves looking up the name.
 *
 * # Safety
 * `client` is a live client, `tag` ends with a zero, `id` is valid for a write.
 */
enum leafd_status leafd_next(const struct leafd_client *client,
                             const char *tag,
                             uint64_t *id);

/**
 * As `leafd_next()`, within `timeout_ms` milliseconds (see `leafd_new()`).
 *
 * # Safety
 * As for `leafd_next()`.
 */
enum leafd_status leafd_next_within(const struct leafd_client *client,
                                    const char *tag,
                                    uint32_t timeout_ms,
                                    uint64_t *id);

/**
 * The next id of `tag`, drawn directly by a request of its own. It is higher than all ids drawn directly on this host
 * before. Takes microseconds, and at most `timeout_ms` milliseconds (see `leafd_new()`). Otherwise as `leafd_next()`.
 *
 * # Safety
 * As for `leafd_next()`.
 */
enum leafd_status leafd_next_direct(const struct leafd_client *client,
                                    const char *tag,
                                    uint32_t timeout_ms,
                                    uint64_t *id);

/**
 * `count` ids of `tag`, in the order of issue, straight from the daemon: all of them within `timeout_ms` milliseconds
 * (see `leafd_new()`), or none.
 *
 * Writes them to `ids`, which has room for `count` numbers and may be NULL for 0. More than 1000000 take several
 * requests; at most 1000000000. Errors: as for `leafd_next()`. Any thread; not for signal handlers.
 *
 * # Safety
 * `client` is a live client, `tag` ends with a zero, `ids` is valid for writes of `count` numbers.
 */
enum leafd_status leafd_next_many(const struct leafd_client *client,
                                  const char *tag,
                                  uint32_t timeout_ms,
                                  uint64_t *ids,
                                  size_t count);

/**
 * Copies the path of the daemon's socket, as determined when the client was made.
 *
 * Writes at most `size` bytes to `buffer`, including the terminating zero; a longer path is cut. `buffer` may be NULL
 * if `size` is 0. Returns the length of the whole path without the zero; 0 if `client` is no live handle. Any thread;
 * not for signal handlers.
 *
 * # Safety
 * `client` is a live client, `buffer` is valid for writes of `size` bytes.
 */
size_t leafd_socket_path(const struct leafd_client *client,
                         char *buffer,
                         size_t size);

/**
 * As `leafd_connect()`, with the error in `error`, which may be NULL.
 *
 * # Safety
 * `client` is a live client, `error` is NULL or valid for a write.
 */
enum leafd_status leafd_connect_e(const struct leafd_client *client, struct leafd_error *error);

/**
 * The next id of `tag`, as `leafd_next_within()`, with the error in `error`, which may be NULL. `flags`: 0, or
 * `LEAFD_DIRECT` to draw as `leafd_next_direct()`. For runtimes whose calls move between threads, so that the thread's
 * last failure may be another call's.
 *
 * # Safety
 * As for `leafd_next()`; `error` is NULL or valid for a write.
 */
enum leafd_status leafd_next_e(const struct leafd_client *client,
                               const char *tag,
                               uint32_t flags,
                               uint32_t timeout_ms,
                               uint64_t *id,
                               struct leafd_error *error);

/**
 * As `leafd_next_many()`, with the error in `error`, which may be NULL.
 *
 * # Safety
 * As for `leafd_next_many()`; `error` is NULL or valid for a write.
 */
enum leafd_status leafd_next_many_e(const struct leafd_client *client,
                                    const char *tag,
                                    uint32_t timeout_ms,
                                    uint64_t *ids,
                                    size_t count,
                                    struct leafd_error *error);

/**
 * An id of the run that the process holds, without waiting. For an event loop that talks to the daemon on its own
 * socket (leafd's protocol is a page to read). 0: no id is held, or `tag` is no live handle.
 *
 * If `LEAFD_LOOP_REFILL` is set in the result, half of the run is used, and the loop should ask for the next one now:
 * it sends a request for `leafd_loop_wish()` ids with the flag HOLD, and passes the reply to `leafd_loop_hold()`.
 * After 0, try `leafd_loop_advance()`, and ask if that has none either. Any thread; not for signal handlers.
 *
 * # Safety
 * `tag` is a live tag.
 */
uint64_t leafd_loop_take(const struct leafd_tag *tag);

/**
 * The first id of the next run that was passed to `leafd_loop_hold()`; 0: there is none, or `tag` is no live handle.
 * Never waits for the daemon. Any thread; not for signal handlers.
 *
 * # Safety
 * `tag` is a live tag.
 */
uint64_t leafd_loop_advance(const struct leafd_tag *tag);

/**
 * How many ids a loop should ask for when `waiting` of its callers have none, by the rate of use so far. At least 1.
 * Any thread; not for signal handlers.
 *
 * # Safety
 * `tag` is a live tag.
 */
uint32_t leafd_loop_wish(const struct leafd_tag *tag,
                         uint32_t waiting);

/**
 * Takes in the reply, with status OK, to a request for `asked` ids with the flag HOLD.
 *
 * `reply`: its body, of `length` bytes, as received. `asked_ns`: when the request was sent, in nanoseconds of
 * CLOCK_BOOTTIME. Pass each reply on only once, and before the process can fork.
 *
 * Writes 0 to `id`. If these ids may not be held, or the reply came too late for it, this writes one drawn id and skips
 * the rest. The id is for a call that began before the request was sent. If there is none, skip the id. So that no call
 * waits in vain where replies are late, serve such a call at once, by this id or by `leafd_loop_advance()`.
 *
 * Errors: `NULL_POINTER`, `HANDLE`, `PROTOCOL` for a body that doesn't answer such a request. Any thread; not for signal
 * handlers.
 *
 * # Safety
 * `tag` is a live tag, `reply` is valid for reads of `length` bytes, `id` is valid for a write.
 */
enum leafd_status leafd_loop_hold(const struct leafd_tag *tag,
                                  const uint8_t *reply,
                                  size_t length,
                                  uint32_t asked,
                                  uint64_t asked_ns,
                                  uint64_t *id);

/**
 * Makes the calling thread release an interpreter's lock while it waits, and ask the interpreter after a signal
 * whether to continue. Otherwise a handler, which runs in the interpreter, must wait until the call ends. From now on
 * the thread must have the lock when it makes a call that may wait. For Python's main thread, the functions are
 * `PyEval_SaveThread`, `PyEval_RestoreThread` and `PyErr_CheckSignals`.
 *
 * `interpreter`: NULL for none, the initial state. Errors: `NULL_POINTER`. Applies to this thread only, and to the
 * thread in a child that it forks. Not for signal handlers.
 *
 * # Safety
 * `interpreter` is NULL or valid for a read, and its functions may be called in this way on this thread.
 */
enum leafd_status leafd_set_interpreter(const struct leafd_interpreter *interpreter);

/**
 * Copies the error of this thread's last failed call: what was tried, what happened, what to do.
 *
 * Writes at most `size` bytes to `buffer`, including the terminating zero; longer text is cut between
 * characters (it is UTF-8). `buffer` may be NULL if `size` is 0. Returns the length of the whole text without
 * the zero: 0 if no call has failed yet.
 *
 * Successful calls don't change it. Each thread has its own. Not for signal handlers.
 *
 * # Safety
 * `buffer` is valid for writes of `size` bytes.
 */
size_t leafd_error_message(char *buffer, size_t size);

/**
 * The milliseconds after which a retry of this thread's last failed call may succeed; 0: unknown. Not for
 * signal handlers.
 */
uint32_t leafd_error_retry_after_ms(void);

/**
 * Whether this thread's last failed call may succeed later without any repair. Not for signal handlers.
 */
bool leafd_error_is_retryable(void);

/**
 * The system's error number (an `errno`) that caused this thread's last failed call; 0: none. Not for signal
 * handlers.
 */
int32_t leafd_error_errno(void);

/**
 * The layout of Leaf's own snowflake ids: 41 bits of milliseconds since 2010-11-04T01:42:54.657Z, 10 bits of worker,
 * 12 bits of sequence. Any thread, also in signal handlers.
 */
struct leafd_layout leafd_layout_leaf(void);

/**
 * Asks the daemon for the layout of the snowflake ids that are drawn with the tag name `name` ("snowflake").
 *
 * Writes it to `layout`. Errors: `NULL_POINTER`, `HANDLE`, `INVALID_ARGUMENT` if the daemon has no layout of this
 * name, or the reason why the daemon did not answer. Any thread; not for signal handlers.
 *
 * # Safety
 * `client` is a live client, `name` ends with a zero, `layout` is valid for a write.
 */
enum leafd_status leafd_layout_of(const struct leafd_client *client,
                                  const char *name,
                                  struct leafd_layout *layout);

/**
 * Takes a snowflake id apart by its layout.
 *
 * Writes the parts to `parts`. Errors: `NULL_POINTER`, `INVALID_ARGUMENT` for an invalid layout or an id with bits
 * that the layout doesn't have. Any thread; not for signal handlers.
 *
 * # Safety
 * `layout` is valid for a read, `parts` for a write.
 */
enum leafd_status leafd_decode(uint64_t id,
                               const struct leafd_layout *layout,
                               struct leafd_parts *parts);

/**
 * The public ids of `count` dense ones of `tag`, as numbers. leafd's guide explains what they hide and who may ask.
 * Numbers don't tell which key made them: once another key is in use, they are read wrongly unless `form` names the
 * old one.
 *
 * `form`: may be NULL, which means all zeros. `timeout_ms`: see `leafd_new()`; it applies to the whole call, which
 * makes one request for every 240 ids.
 *
 * Writes to `public_ids`, which has room for `count` numbers and may be the same array as `ids`, and to `error`, which
 * may be NULL. Errors: `VALUE_REFUSED` for an id that is 0 or has more bits, and for an invalid form; `DENIED` if this
 * user may not mask and unmask; `MASK_KEY` if the daemon has no such key, or a wrong one; `NULL_POINTER`, `HANDLE`,
 * `INVALID_ARGUMENT`, or the reason why the daemon did not answer. Any thread; not for signal handlers.
 *
 * # Safety
 * `client` is a live client, `tag` and the form's prefix end with a zero, `ids` is valid for reads and `public_ids` for
 * writes of `count` numbers, `form` and `error` are NULL or valid.
 */
enum leafd_status leafd_mask(const struct leafd_client *client,
                             const char *tag,
                             const struct leafd_public_form *form,
                             uint32_t timeout_ms,
                             const uint64_t *ids,
                             uint64_t *public_ids,
                             size_t count,
                             struct leafd_error *error);

/**
 * The dense ids of public ones that `leafd_mask()` made with the same `form`. `ids` may be the same array as
 * `public_ids`.
 *
 * # Safety
 * As for `leafd_mask()`, with `ids` for `public_ids`.
 */
enum leafd_status leafd_unmask(const struct leafd_client *client,
                               const char *tag,
                               const struct leafd_public_form *form,
                               uint32_t timeout_ms,
                               const uint64_t *public_ids,
                               uint64_t *ids,
                               size_t count,
                               struct leafd_error *error);

/**
 * As `leafd_mask()`, but as text, such as "ord_16dsky4r4xzza8d" with the prefix "ord". Each text ends with a zero.
 *
 * # Safety
 * As for `leafd_mask()`; `texts` is valid for writes of `count` arrays.
 */
enum leafd_status leafd_mask_text(const struct leafd_client *client,
                                  const char *tag,
                                  const struct leafd_public_form *form,
                                  uint32_t timeout_ms,
                                  const uint64_t *ids,
                                  char (*texts)[LEAFD_PUBLIC_ID_BYTES],
                                  size_t count,
                                  struct leafd_error *error);

/**
 * The dense ids of `count` texts that `leafd_mask_text()` made with the same bits and prefix.
 *
 * Writes them to `ids`, which has room for `count` numbers. `VALUE_REFUSED` also for a text that is no public id of
 * this form, because it was mistyped, cut or made up: the message names the first one. Otherwise as `leafd_mask()`.
 *
 * # Safety
 * As for `leafd_mask()`; each of `texts` ends with a zero, `ids` is valid for writes of `count` numbers.
 */
enum leafd_status leafd_unmask_text(const struct leafd_client *client,
                                    const char *tag,
                                    const struct leafd_public_form *form,
                                    uint32_t timeout_ms,
                                    const char *const *texts,
                                    uint64_t *ids,
                                    size_t count,
                                    struct leafd_error *error);

/**
 * The name of a status, such as "TAG_UNKNOWN"; "UNKNOWN" for an unknown number. The text stays valid for ever.
 * Safe at any time, also in signal handlers.
 */
const char *leafd_status_name(uint32_t status);

/**
 * The meaning of a status in a few words. The text stays valid for ever. `leafd_error_message()` tells more. Safe
 * at any time, also in signal handlers.
 */
const char *leafd_status_text(uint32_t status);

/**
 * Makes a handle of a tag. The daemon is not asked whether the tag exists.
 *
 * `name`: as for `leafd_next()`. `flags`: 0, or `LEAFD_DIRECT` so that this handle's ids are drawn directly.
 *
 * Writes the handle to `tag`; end it with `leafd_tag_free()`. It keeps alive what it needs of the client. Errors:
 * `NULL_POINTER`, `HANDLE`, `INVALID_ARGUMENT`, `RESOURCES`. Any thread; not for signal handlers.
 *
 * # Safety
 * `client` is a live client, `name` ends with a zero, `tag` is valid for a write.
 */
enum leafd_status leafd_tag_new(const struct leafd_client *client,
                                const char *name,
                                uint32_t flags,
                                struct leafd_tag **tag);

/**
 * Ends a tag's handle. NULL is allowed. Errors: `HANDLE`. No other thread may be in a call with it. Not for signal
 * handlers.
 *
 * # Safety
 * `tag` is NULL, or was made by `leafd_tag_new()` and is not in use.
 */
enum leafd_status leafd_tag_free(struct leafd_tag *tag);

/**
 * The next id; see `leafd_next()`.
 *
 * Writes it to `id`. Errors: `NULL_POINTER`, `HANDLE`, or the reason why the daemon did not answer. Any thread;
 * not for signal handlers.
 *
 * # Safety
 * `tag` is a live tag, `id` is valid for a write.
 */
enum leafd_status leafd_tag_next(const struct leafd_tag *tag,
                                 uint64_t *id);

/**
 * As `leafd_tag_next()`, within `timeout_ms` milliseconds (see `leafd_new()`).
 *
 * # Safety
 * As for `leafd_tag_next()`.
 */
enum leafd_status leafd_tag_next_within(const struct leafd_tag *tag, uint32_t timeout_ms, uint64_t *id);

/**
 * `count` ids; see `leafd_next_many()`.
 *
 * # Safety
 * `tag` is a live tag, `ids` is valid for writes of `count` numbers.
 */
enum leafd_status leafd_tag_next_many(const struct leafd_tag *tag,
                                      uint32_t timeout_ms,
                                      uint64_t *ids,
                                      size_t count);

/**
 * An id of the run that the process holds, without waiting; 0: no id is held, or `tag` is no live handle. For
 * bindings that do something before they wait (release an interpreter's lock, say) and then call
 * `leafd_tag_next_within()`. Any thread; not for signal handlers.
 *
 * # Safety
 * `tag` is a live tag.
 */
uint64_t leafd_tag_take(const struct leafd_tag *tag);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* LEAFD_H */
