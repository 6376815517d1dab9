
# What follows the page's program, up to where it inserts: forked workers whose threads insert batches of rows, with ids
# from leafd, from a counter and from the table's sequence.
class Numbered < ActiveRecord::Base
  self.table_name = "orders"
end

$last = 0
$stdout.sync = true
rows, tasks, workers = %w[ROWS TASKS WORKERS].map { |name| ENV.fetch(name).to_i }
running = -> { File.exist?(ENV.fetch("RUNNING")) }

inserts = {
  "leafd" => -> { Order.insert_all!(Array.new(rows) { { id: Leafd.next_id("orders"), item: "leafd" } }) },
  "counter" => -> { Order.insert_all!(Array.new(rows) { { id: $last += 1, item: "counter" } }) },
  "own" => -> { Numbered.insert_all!(Array.new(rows) { { item: "own" } }) },
}

insert = lambda do |round, source|
  began = Process.clock_gettime(Process::CLOCK_MONOTONIC, :microsecond)
  # A thread keeps the connection that it has used, so most of them would never get one.
  ActiveRecord::Base.connection_pool.with_connection { inserts[source].call }
  $stdout.write("#{round}#{source} #{Process.clock_gettime(Process::CLOCK_MONOTONIC, :microsecond) - began}\n")
rescue StandardError => error
  $stdout.write("failed #{source}: #{error.message.tr("\n", " ")}\n")
end

task = lambda do
  inserts.keys.shuffle.each { |source| insert.call("first ", source) }
  inserts.keys.shuffle.each { |source| insert.call("", source) } while running.call
end

work = lambda do
  Array.new(tasks) { Thread.new(&task) }.each(&:join)
  exit!
end

Leafd.next_id("orders") # so that workers inherit a connected client, and a run of ids
ActiveRecord::Base.establish_connection("#{ENV.fetch("DATABASE_URL")}?pool=20&checkout_timeout=300")
workers.times { fork(&work) }
while running.call
  Process.wait
  fork(&work) if running.call
end
Process.waitall
