// Draws ids in C++: handles that free themselves, failures that are thrown.
//
//     c++ -o orders orders.cpp $(pkg-config --cflags --libs leafd)
//     ./orders orders 5
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <leafd.h>

namespace ids {

struct Failure : std::runtime_error {
    leafd_status status;
    bool retryable = leafd_error_is_retryable();

    explicit Failure(leafd_status status) : std::runtime_error(message()), status(status) {}

    static std::string message()
    {
        std::string text(leafd_error_message(nullptr, 0) + 1, '\0');
        leafd_error_message(&text[0], text.size());
        text.pop_back();
        return text;
    }
};

inline void check(leafd_status status)
{
    if (status != LEAFD_STATUS_OK) {
        throw Failure(status);
    }
}

struct Free {
    void operator()(leafd_client *client) const { leafd_free(client); }
    void operator()(leafd_tag *tag) const { leafd_tag_free(tag); }
};

// A tag that any number of threads draw of.
class Tag {
    std::unique_ptr<leafd_client, Free> client;
    std::unique_ptr<leafd_tag, Free> tag;

public:
    explicit Tag(const char *name)
    {
        leafd_client *made = nullptr;
        check(leafd_new(nullptr, LEAFD_TIMEOUT_DEFAULT, 0, &made));
        client.reset(made);
        leafd_tag *found = nullptr;
        check(leafd_tag_new(made, name, 0, &found));
        tag.reset(found);
    }

    std::uint64_t next() const
    {
        std::uint64_t id = 0;
        check(leafd_tag_next(tag.get(), &id));
        return id;
    }
};

} // namespace ids

int main(int argc, char **argv)
{
    try {
        const ids::Tag tag(argc > 1 ? argv[1] : "orders");
        const unsigned long count = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 3;
        std::vector<std::vector<std::uint64_t>> drawn(2);
        std::vector<std::thread> threads;
        tag.next();
        for (auto &mine : drawn) {
            threads.emplace_back([&tag, &mine, count] {
                for (unsigned long number = 0; number < count; number++) {
                    mine.push_back(tag.next());
                }
            });
        }
        for (auto &thread : threads) {
            thread.join();
        }
        for (const auto &of_thread : drawn) {
            for (std::uint64_t id : of_thread) {
                std::cout << id << "\n";
            }
        }
    } catch (const ids::Failure &failure) {
        std::cerr << leafd_status_name(failure.status) << ": " << failure.what() << "\n";
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
