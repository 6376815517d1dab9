//! Inserts batches of rows through sqlx, Diesel or SeaORM, with ids from leafd and from a counter:
//! examples/frameworks/measure runs it.

use std::env::var;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use diesel::{Connection, ExpressionMethods, RunQueryDsl};
use leafd_client::{AsyncClient, Client};
use sea_orm::ActiveValue::Set;
use sea_orm::EntityTrait;

type Failure = Box<dyn std::error::Error + Send + Sync>;

diesel::table! {
    orders (id) {
        id -> BigInt,
        item -> Text,
    }
}

mod entity {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, DeriveEntityModel)]
    #[sea_orm(table_name = "orders")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: i64,
        pub item: String,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

#[derive(Clone)]
enum Database {
    Sqlx(sqlx::PgPool),
    SeaOrm(sea_orm::DatabaseConnection),
}

static COUNTER: AtomicI64 = AtomicI64::new(1);

fn number(name: &str) -> Result<u32, Failure> {
    Ok(var(name)?.parse()?)
}

fn running() -> bool {
    var("RUNNING").is_ok_and(|path| Path::new(&path).exists())
}

fn counted(rows: u32) -> Vec<i64> {
    let first = COUNTER.fetch_add(rows.into(), Ordering::Relaxed);
    (first..).take(rows as usize).collect()
}

/// The sources in a random order.
fn sources() -> [&'static str; 2] {
    match RandomState::new().hash_one(()) % 2 {
        0 => ["leafd", "counter"],
        _ => ["counter", "leafd"],
    }
}

fn show(round: u64, source: &str, began: Instant, inserted: Result<(), Failure>) {
    let first = if round == 0 { "first " } else { "" };
    match inserted {
        Ok(()) => println!("{first}{source} {}", began.elapsed().as_micros()),
        Err(error) => println!("failed {source}: {error}"),
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let framework = std::env::args().nth(1).unwrap_or_default();
    let client = Client::builder().build()?;
    let url = var("DATABASE_URL")?;
    let mut tasks = tokio::task::JoinSet::new();
    if framework == "diesel" {
        for _ in 0..number("TASKS")? {
            let (client, url) = (client.clone(), url.clone());
            tasks.spawn_blocking(move || insert_in_thread(&client, &url));
        }
    } else {
        let patience = Duration::from_mins(5);
        let pool =
            sqlx::postgres::PgPoolOptions::new().max_connections(20).acquire_timeout(patience);
        let mut options = sea_orm::ConnectOptions::new(&url);
        options.max_connections(20).acquire_timeout(patience);
        let database = match framework.as_str() {
            "sqlx" => Database::Sqlx(pool.connect(&url).await?),
            _ => Database::SeaOrm(sea_orm::Database::connect(options).await?),
        };
        for _ in 0..number("TASKS")? {
            let (ids, database) = (AsyncClient::from(client.clone()), database.clone());
            tasks.spawn(async move { insert_in_tasks(&ids, &database).await });
        }
    }
    tasks.join_all().await.into_iter().collect()
}

fn insert_in_thread(client: &Client, url: &str) -> Result<(), Failure> {
    let mut connection = diesel::PgConnection::establish(url)?;
    let rows = number("ROWS")?;
    for round in (0u64..).take_while(|_| running()) {
        for source in sources() {
            let began = Instant::now();
            let mut insert = || {
                let ids: Vec<i64> = match source {
                    "leafd" => (0..rows)
                        .map(|_| client.next("orders").map(u64::cast_signed))
                        .collect::<Result<_, _>>()?,
                    _ => counted(rows),
                };
                let rows: Vec<_> =
                    ids.iter().map(|id| (orders::id.eq(*id), orders::item.eq(source))).collect();
                diesel::insert_into(orders::table).values(&rows).execute(&mut connection)?;
                Ok(())
            };
            show(round, source, began, insert());
        }
    }
    Ok(())
}

async fn insert_in_tasks(client: &AsyncClient, database: &Database) -> Result<(), Failure> {
    let rows = number("ROWS")?;
    for round in (0u64..).take_while(|_| running()) {
        for source in sources() {
            let began = Instant::now();
            let insert = async {
                let ids = match source {
                    "leafd" => {
                        let mut ids = Vec::new();
                        for _ in 0..rows {
                            ids.push(client.next("orders").await?.cast_signed());
                        }
                        ids
                    }
                    _ => counted(rows),
                };
                match database {
                    Database::Sqlx(pool) => {
                        sqlx::query(
                            "INSERT INTO orders (id, item) SELECT unnest($1::bigint[]), $2",
                        )
                        .bind(ids)
                        .bind(source)
                        .execute(pool)
                        .await?;
                    }
                    Database::SeaOrm(connection) => {
                        let rows = ids.into_iter().map(|id| entity::ActiveModel {
                            id: Set(id),
                            item: Set(source.to_owned()),
                        });
                        entity::Entity::insert_many(rows)
                            .exec_without_returning(connection)
                            .await?;
                    }
                }
                Ok(())
            };
            show(round, source, began, insert.await);
        }
    }
    Ok(())
}
