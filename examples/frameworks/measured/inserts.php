
// What follows the page's program, up to where it inserts: each request inserts two batches of rows, with ids from leafd
// and from a counter.
function drawn(string $tag): int
{
    static $last = 0;
    return $GLOBALS['source'] === 'counter' ? ++$last : Leafd::nextId($tag);
}

foreach (['leafd', 'counter'] as $source) {
    $began = hrtime(true);
    $rows = range(1, (int) getenv('ROWS'));
    try {
        if (isset($database)) {
            $database->getConnection()->transaction(fn () => array_map(fn () => Order::forceCreate(['item' => $source]), $rows));
        } else {
            foreach ($rows as $row) {
                $manager->persist($order = new Order());
                $order->item = $source;
            }
            $manager->flush();
        }
        printf("%s %d\n", $source, (hrtime(true) - $began) / 1000);
    } catch (Exception $e) {
        echo "failed $source: {$e->getMessage()}\n";
    }
}
