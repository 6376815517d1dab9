
// What follows the page's program, up to where it inserts: after a batch that connects to the database and loads what the
// framework needs, each request inserts a batch with ids from leafd and one with ids from a counter.
function drawn(string $tag): int
{
    static $last = 0;
    return $GLOBALS['source'] === 'leafd' ? Leafd::nextId($tag) : ++$last;
}

$sources = ['leafd', 'counter'];
shuffle($sources);
foreach (['first counter', ...$sources] as $source) {
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
            $manager->clear();
        }
        printf("%s %d\n", $source, (hrtime(true) - $began) / 1000);
    } catch (Exception $e) {
        echo "failed $source: {$e->getMessage()}\n";
    }
}
