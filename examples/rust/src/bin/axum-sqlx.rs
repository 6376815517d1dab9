//! A web service that stores orders under leafd's ids: `DATABASE_URL=postgres://... cargo run --bin axum-sqlx`
//!
//! `POST /orders` with a JSON array of items stores one order for each, and answers with their ids.

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use leafd_client::{AsyncClient, Client, PublicIds};
use sqlx::PgPool;

/// Everything in it can be cloned and shared between threads.
#[derive(Clone)]
struct AppState {
    ids: AsyncClient,
    public: PublicIds,
    database: PgPool,
}

type Failure = (StatusCode, String);

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let database = PgPool::connect(&std::env::var("DATABASE_URL")?).await?;
    sqlx::query("CREATE TABLE IF NOT EXISTS orders (id bigint PRIMARY KEY, item text NOT NULL)")
        .execute(&database)
        .await?;
    let client = Client::builder().build()?;
    let public = client.public_ids("orders").prefix("ord");
    let state = AppState { ids: AsyncClient::from(client), public, database };
    let app = Router::new()
        .route("/orders", post(create_orders))
        .route("/orders/public", post(show_orders))
        .with_state(state);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}", listener.local_addr()?);
    axum::serve(listener, app).await?;
    Ok(())
}

/// The ids are texts, because JavaScript rounds large numbers.
async fn create_orders(
    State(state): State<AppState>,
    Json(items): Json<Vec<String>>,
) -> Result<Json<Vec<String>>, Failure> {
    let ids = state.ids.next_batch("orders", items.len() as u64).await.map_err(no_ids)?;
    // Ids are at most 2^63 - 1, so they fit a bigint column.
    let ids: Vec<i64> = ids.map(u64::cast_signed).collect();
    sqlx::query("INSERT INTO orders (id, item) SELECT * FROM unnest($1::bigint[], $2::text[])")
        .bind(&ids)
        .bind(&items)
        .execute(&state.database)
        .await
        .map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    Ok(Json(ids.iter().map(i64::to_string).collect()))
}

/// Public ids, which hide how many orders there are. `PublicIds` is blocking.
async fn show_orders(
    State(state): State<AppState>,
    Json(ids): Json<Vec<u64>>,
) -> Result<Json<Vec<String>>, Failure> {
    let masked = tokio::task::spawn_blocking(move || state.public.mask_text(&ids)).await;
    let masked = masked.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    masked.map(Json).map_err(no_ids)
}

fn no_ids(error: leafd_client::Error) -> Failure {
    let status = match error.is_retryable() {
        true => StatusCode::SERVICE_UNAVAILABLE,
        false => StatusCode::INTERNAL_SERVER_ERROR,
    };
    (status, error.to_string())
}
