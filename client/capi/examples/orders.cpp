// Draws ids in C++, from two threads.
//
//     c++ -std=c++17 -o orders orders.cpp $(pkg-config --cflags --libs leafd)
//     ./orders orders 5
#include <cstdlib>
#include <iostream>
#include <thread>

#include <leafd.hpp>

int main(int argc, char **argv)
{
    try {
        const leafd::Client client;
        const leafd::Tag tag = client.tag(argc > 1 ? argv[1] : "orders");
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
    } catch (const leafd::Error &error) {
        std::cerr << error.name() << ": " << error.what() << "\n";
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
