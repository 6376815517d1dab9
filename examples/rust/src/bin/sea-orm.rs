//! Stores orders under leafd's ids with SeaORM: `DATABASE_URL=postgres://... cargo run --bin sea-orm ITEM...`

use std::sync::LazyLock;

use leafd_client::{AsyncClient, Client, Error};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::{ConnectionTrait, Database};

/// One for the process.
static IDS: LazyLock<AsyncClient> =
    LazyLock::new(|| AsyncClient::from(Client::builder().build().expect("the default settings")));

#[derive(Clone, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "orders")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: i64,
    pub item: String,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

#[async_trait::async_trait]
impl ActiveModelBehavior for ActiveModel {
    /// Draws the id of a new row, mostly from a run that the process holds.
    async fn before_save<C: ConnectionTrait>(mut self, _: &C, insert: bool) -> Result<Self, DbErr> {
        if insert && self.id.is_not_set() {
            let id = IDS
                .next("orders")
                .await
                .map_err(|error: Error| DbErr::Custom(error.to_string()))?;
            self.id = Set(id.cast_signed()); // ids are at most 2^63 - 1
        }
        Ok(self)
    }
}

#[tokio::main]
async fn main() -> Result<(), DbErr> {
    let database =
        Database::connect(std::env::var("DATABASE_URL").expect("a DATABASE_URL")).await?;
    for item in std::env::args().skip(1) {
        let order = ActiveModel { item: Set(item), ..Default::default() }.insert(&database).await?;
        println!("order {}: {}", order.id, order.item);
    }
    Ok(())
}
