//! Draws ids of a tag and prints them: `cargo run --example draw -- orders 10`.

use std::env;
use std::error::Error;

use leafd_client::Client;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let tag = arguments.next().unwrap_or_else(|| "orders".to_owned());
    let count: u32 = arguments.next().map_or(Ok(10), |count| count.parse())?;

    let client = Client::connect(leafd_client::default_socket_path())?;
    let tag = client.tag(&tag)?;
    for _ in 0..count {
        println!("{}", tag.next()?);
    }
    Ok(())
}
