//! Draws ids: `cargo run -p leafd-client --example orders -- orders 5`.

use leafd_client::{Client, default_socket_path};

fn main() -> Result<(), leafd_client::Error> {
    let mut arguments = std::env::args().skip(1);
    let tag = arguments.next().unwrap_or_else(|| "orders".to_owned());
    let count = arguments.next().and_then(|count| count.parse().ok()).unwrap_or(3);
    let client = Client::connect(default_socket_path())?;
    // From a run of ids that the process holds, in nanoseconds each.
    let orders = client.tag(&tag)?;
    for _ in 0..count {
        println!("{}", orders.next()?);
    }
    // Draw many ids at once, in the order of issue.
    for id in client.next_batch(&tag, 10)? {
        println!("{id}");
    }
    Ok(())
}
