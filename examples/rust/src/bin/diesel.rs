//! Stores orders under leafd's ids with Diesel: `DATABASE_URL=postgres://... cargo run --bin diesel ITEM...`

use diesel::prelude::*;
use leafd_client::{Client, IdSource};

diesel::table! {
    orders (id) {
        id -> BigInt,
        item -> Text,
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::builder().build()?;
    let mut connection = PgConnection::establish(&std::env::var("DATABASE_URL")?)?;
    diesel::sql_query("CREATE TABLE IF NOT EXISTS orders (id bigint PRIMARY KEY, item text NOT NULL)")
        .execute(&mut connection)?;
    let items: Vec<String> = std::env::args().skip(1).collect();
    for id in store(&client, &mut connection, &items)? {
        let item: String = orders::table.find(id).select(orders::item).first(&mut connection)?;
        println!("order {id}: {item}");
    }
    Ok(())
}

/// Tests pass a `FakeClient`.
fn store(
    ids: &impl IdSource,
    connection: &mut PgConnection,
    items: &[String],
) -> Result<Vec<i64>, Box<dyn std::error::Error>> {
    // Ids are at most 2^63 - 1, so they fit a bigint column.
    let ids: Vec<i64> =
        ids.next_batch("orders", items.len() as u64)?.map(u64::cast_signed).collect();
    let rows: Vec<_> = ids
        .iter()
        .zip(items)
        .map(|(id, item)| (orders::id.eq(*id), orders::item.eq(item)))
        .collect();
    diesel::insert_into(orders::table).values(&rows).execute(connection)?;
    Ok(ids)
}
