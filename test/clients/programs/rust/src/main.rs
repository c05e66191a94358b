//! Chat, a stream, embeddings, and a batch from upload to results with async-openai.
use async_openai::types::batches::{BatchCompletionWindow, BatchEndpoint, BatchRequestArgs, BatchStatus};
use async_openai::types::chat::{ChatCompletionRequestUserMessage, CreateChatCompletionRequestArgs};
use async_openai::types::embeddings::CreateEmbeddingRequestArgs;
use async_openai::types::files::{CreateFileRequestArgs, FileInput, FilePurpose};
use async_openai::types::InputSource;
use async_openai::Client;
use futures::StreamExt;
use std::{env, error::Error, time::Duration};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    tokio::time::timeout(Duration::from_secs(120), run()).await?
}

async fn run() -> Result<(), Box<dyn Error>> {
    let client = Client::new();
    let request = CreateChatCompletionRequestArgs::default()
        .model(env::var("MODEL")?)
        .messages([ChatCompletionRequestUserMessage::from("Hello").into()])
        .build()?;

    let chat = client.chat().create(request.clone()).await?;
    let text = chat.choices[0].message.content.clone().unwrap_or_default();
    assert!(text.contains("hello"), "chat: {text}");

    let mut stream = client.chat().create_stream(request).await?;
    let mut streamed = String::new();
    while let Some(chunk) = stream.next().await {
        for choice in chunk?.choices {
            streamed += &choice.delta.content.unwrap_or_default();
        }
    }
    assert_eq!(streamed, text);

    let request = CreateEmbeddingRequestArgs::default()
        .model(env::var("EMBEDDING_MODEL")?)
        .input(["Habari ya dunia", "Hello world"])
        .build()?;
    let embeddings = client.embeddings().create(request).await?;
    assert_eq!(embeddings.data.len(), 2);
    assert_eq!(embeddings.data[1].embedding.len(), 384);

    let source = InputSource::Path { path: env::var("REQUESTS")?.into() };
    let request = CreateFileRequestArgs::default()
        .file(FileInput { source })
        .purpose(FilePurpose::Batch)
        .build()?;
    let file = client.files().create(request).await?;
    let request = BatchRequestArgs::default()
        .input_file_id(file.id)
        .endpoint(BatchEndpoint::V1ChatCompletions)
        .completion_window(BatchCompletionWindow::W24H)
        .build()?;
    let mut batch = client.batches().create(request).await?;
    let output = loop {
        if let Some(output) = &batch.output_file_id {
            break output;
        }
        assert!(batch.status != BatchStatus::Failed && batch.error_file_id.is_none(), "batch: {batch:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
        batch = client.batches().retrieve(&batch.id).await?;
    };
    let content = client.files().content(output).await?;
    let results = String::from_utf8(content.to_vec())?;
    assert_eq!(results.matches("hello").count(), 2, "results: {results}");
    println!("chat, stream, embeddings and a batch of {}", batch.request_counts.map_or(0, |counts| counts.completed));
    Ok(())
}
