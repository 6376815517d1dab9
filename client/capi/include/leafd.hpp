// leafd for C++17: handles that free themselves, and exceptions. It requires only leafd.h and libleafd.
//
//     leafd::Client client;
//     std::uint64_t id = client.next("orders");
//
// Handles can be moved, but not copied. Threads can share a handle by reference. Any call may throw leafd::Error,
// unless it is noexcept. Timeouts are capped at 60 s; after its timeout, a call waits up to 250 ms more for the
// daemon's error.
#ifndef LEAFD_HPP
#define LEAFD_HPP

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <leafd.h>

namespace leafd {

// As a call's timeout: the timeout that the client was created with.
inline constexpr std::chrono::milliseconds client_timeout{LEAFD_TIMEOUT_DEFAULT};

// The error of a failed call. The call may have skipped ids, but an id that it drew is never returned by another call.
class Error : public std::runtime_error {
    leafd_status status_;
    bool retryable_;
    std::chrono::milliseconds retry_after_;
    int os_error_;

public:
    explicit Error(const leafd_error &error)
        : std::runtime_error(error.message), status_(static_cast<leafd_status>(error.status)),
          retryable_(error.retryable), retry_after_(error.retry_after_ms), os_error_(error.os_error)
    {
    }

    // The status: the daemon's up to 999, the library's from 1000 on.
    leafd_status status() const noexcept { return status_; }
    // The status as protocol.md names it, such as "TAG_UNKNOWN".
    const char *name() const noexcept { return leafd_status_name(status_); }
    // Whether the call timed out.
    bool is_timeout() const noexcept { return leafd_status_is_timeout(status_); }
    // Whether the same call may succeed later without any other action.
    bool is_retryable() const noexcept { return retryable_; }
    // How long to wait before a retry may succeed; zero if unknown.
    std::chrono::milliseconds retry_after() const noexcept { return retry_after_; }
    // The system's error number that caused the error; 0 if there is none.
    int os_error() const noexcept { return os_error_; }
};

namespace detail {

struct Free {
    void operator()(leafd_client *client) const noexcept { leafd_free(client); }
    void operator()(leafd_tag *tag) const noexcept { leafd_tag_free(tag); }
};

inline std::uint32_t milliseconds(std::chrono::milliseconds timeout)
{
    const auto most = static_cast<std::chrono::milliseconds::rep>(LEAFD_TIMEOUT_DEFAULT);
    return static_cast<std::uint32_t>(std::clamp<std::chrono::milliseconds::rep>(timeout.count(), 0, most));
}

// Makes a call whose last argument is the error, and throws the error if it fails.
template <typename Call, typename... Arguments> void check(Call call, Arguments... arguments)
{
    leafd_error error;
    if (call(arguments..., &error) != LEAFD_STATUS_OK) {
        throw Error(error);
    }
}

} // namespace detail

// A handle for one tag of a client, which is the fastest way to draw many ids. It may outlive its client.
class Tag {
    std::unique_ptr<leafd_tag, detail::Free> tag_;

public:
    // Takes ownership of a handle.
    explicit Tag(leafd_tag *tag) noexcept : tag_(tag) {}

    // Returns the next id of the tag.
    std::uint64_t next(std::chrono::milliseconds timeout = client_timeout) const
    {
        std::uint64_t id = 0;
        detail::check(leafd_tag_next, tag_.get(), detail::milliseconds(timeout), &id);
        return id;
    }

    // Returns an id from the held run without waiting, if there is one.
    std::optional<std::uint64_t> take() const noexcept
    {
        const std::uint64_t id = leafd_tag_take(tag_.get());
        return id == 0 ? std::nullopt : std::optional<std::uint64_t>(id);
    }

    // Draws `count` ids, at most 1,000,000,000, in the order of issue: all of them, or none.
    std::vector<std::uint64_t> next_many(std::size_t count, std::chrono::milliseconds timeout = client_timeout) const
    {
        std::vector<std::uint64_t> ids(count);
        detail::check(leafd_tag_next_many, tag_.get(), detail::milliseconds(timeout), ids.data(), count);
        return ids;
    }

    // The C handle, which this object keeps.
    leafd_tag *get() const noexcept { return tag_.get(); }
};

// A process's access to the daemon, for all its threads. Forked children can use it too.
class Client {
    std::unique_ptr<leafd_client, detail::Free> client_;

public:
    // Creates a client, which connects on first use. All zeros in `settings` select the defaults.
    explicit Client(const leafd_settings &settings = leafd_settings{})
    {
        leafd_client *client = nullptr;
        detail::check(leafd_new, &settings, &client);
        client_.reset(client);
    }

    // Returns the daemon's release and whether it is ready. Connects if there is no connection.
    leafd_daemon_info info(std::chrono::milliseconds timeout = client_timeout) const
    {
        leafd_daemon_info info;
        detail::check(leafd_info, get(), detail::milliseconds(timeout), &info);
        return info;
    }

    // Returns the next id of a tag, usually from a run that the process holds.
    std::uint64_t next(const char *tag, std::chrono::milliseconds timeout = client_timeout) const
    {
        std::uint64_t id = 0;
        detail::check(leafd_next, get(), tag, detail::milliseconds(timeout), &id);
        return id;
    }

    // Draws the next id of a tag with a separate request. It is higher than any id drawn directly on this host before.
    std::uint64_t next_direct(const char *tag, std::chrono::milliseconds timeout = client_timeout) const
    {
        std::uint64_t id = 0;
        detail::check(leafd_next_direct, get(), tag, detail::milliseconds(timeout), &id);
        return id;
    }

    // Draws `count` ids, at most 1,000,000,000, in the order of issue: all of them, or none.
    std::vector<std::uint64_t> next_many(const char *tag, std::size_t count,
                                         std::chrono::milliseconds timeout = client_timeout) const
    {
        std::vector<std::uint64_t> ids(count);
        detail::check(leafd_next_many, get(), tag, detail::milliseconds(timeout), ids.data(), count);
        return ids;
    }

    // Creates a handle for a tag. `flags`: 0, or LEAFD_DIRECT to draw each id with a separate request.
    Tag tag(const char *name, std::uint32_t flags = 0) const
    {
        leafd_tag *tag = nullptr;
        detail::check(leafd_tag_new, get(), name, flags, &tag);
        return Tag(tag);
    }

    // Asks the daemon for the layout of the snowflake ids drawn under the tag name `name`.
    leafd_layout layout(const char *name = "snowflake", std::chrono::milliseconds timeout = client_timeout) const
    {
        leafd_layout layout;
        detail::check(leafd_layout_of, get(), name, detail::milliseconds(timeout), &layout);
        return layout;
    }

    // Converts dense ids to public ids, as numbers.
    std::vector<std::uint64_t> mask(const char *tag, const std::vector<std::uint64_t> &ids,
                                    const leafd_public_form &form = leafd_public_form{},
                                    std::chrono::milliseconds timeout = client_timeout) const
    {
        std::vector<std::uint64_t> shown(ids.size());
        detail::check(leafd_mask, get(), tag, &form, detail::milliseconds(timeout), ids.data(), shown.data(), ids.size());
        return shown;
    }

    // Converts public ids back to dense ids.
    std::vector<std::uint64_t> unmask(const char *tag, const std::vector<std::uint64_t> &shown,
                                      const leafd_public_form &form = leafd_public_form{},
                                      std::chrono::milliseconds timeout = client_timeout) const
    {
        std::vector<std::uint64_t> ids(shown.size());
        detail::check(leafd_unmask, get(), tag, &form, detail::milliseconds(timeout), shown.data(), ids.data(), ids.size());
        return ids;
    }

    // The C handle, which this object keeps.
    leafd_client *get() const noexcept { return client_.get(); }
};

// Decodes a snowflake id by its layout.
inline leafd_parts decode(std::uint64_t id, const leafd_layout &layout)
{
    leafd_parts parts;
    detail::check(leafd_decode, id, &layout, &parts);
    return parts;
}

// Returns the smallest id that a layout can have at a given time, as a bound for queries by time.
inline std::uint64_t first_id_at(std::chrono::system_clock::time_point when, const leafd_layout &layout)
{
    const auto since_epoch = std::chrono::floor<std::chrono::milliseconds>(when.time_since_epoch()).count();
    std::uint64_t id = 0;
    const auto unix_ms = static_cast<std::uint64_t>(std::max<decltype(since_epoch)>(since_epoch, 0));
    detail::check(leafd_first_id_at, unix_ms, &layout, &id);
    return id;
}

} // namespace leafd

#endif
