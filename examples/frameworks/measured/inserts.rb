
# What follows the page's program, up to where it inserts: forked workers whose threads insert batches of rows, with ids
# from leafd and from a counter in turn.
class << Leafd
  alias drawn next_id

  def next_id(tag) = Thread.current[:counted] ? $last += 1 : drawn(tag)
end

$last = 0
$stdout.sync = true
rows, tasks, workers = %w[ROWS TASKS WORKERS].map { |name| ENV.fetch(name).to_i }
running = -> { File.exist?(ENV.fetch("RUNNING")) }

insert = lambda do |source|
  Thread.current[:counted] = source == "counter"
  began = Process.clock_gettime(Process::CLOCK_MONOTONIC, :microsecond)
  Order.transaction { rows.times { Order.create!(item: source) } }
  $stdout.write("#{source} #{Process.clock_gettime(Process::CLOCK_MONOTONIC, :microsecond) - began}\n")
rescue StandardError => error
  $stdout.write("failed #{source}: #{error.message.tr("\n", " ")}\n")
end

work = lambda do
  threads = Array.new(tasks) { Thread.new { %w[leafd counter].each(&insert) while running.call } }
  threads.each(&:join)
  exit!
end

Leafd.next_id("orders") # so that workers inherit a connected client, and a run of ids
ActiveRecord::Base.connection_pool.disconnect!
ActiveRecord::Base.establish_connection("#{ENV.fetch("DATABASE_URL")}?pool=20&checkout_timeout=300")
workers.times { fork(&work) }
while running.call
  Process.wait
  fork(&work) if running.call
end
Process.waitall
