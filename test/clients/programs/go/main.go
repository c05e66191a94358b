// Chat, a stream, embeddings, and a batch from upload to results with openai-go.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"time"

	"github.com/openai/openai-go/v3"
)

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func check(holds bool, what string, value any) {
	if !holds {
		log.Fatalf("%s: %v", what, value)
	}
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	client := openai.NewClient()
	model := os.Getenv("MODEL")
	messages := []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Hello")}

	chat := must(client.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{Model: model, Messages: messages}))
	text := chat.Choices[0].Message.Content
	check(strings.Contains(text, "hello"), "chat", text)

	stream := client.Chat.Completions.NewStreaming(ctx, openai.ChatCompletionNewParams{
		Model: model, Messages: messages, StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)},
	})
	answer := openai.ChatCompletionAccumulator{}
	for stream.Next() {
		check(answer.AddChunk(stream.Current()), "chunk", stream.Current())
	}
	check(stream.Err() == nil, "stream", stream.Err())
	check(answer.Choices[0].Message.Content == text && answer.Usage.TotalTokens > 0, "stream", answer.Choices)

	embeddings := must(client.Embeddings.New(ctx, openai.EmbeddingNewParams{
		Model: os.Getenv("EMBEDDING_MODEL"),
		Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"Habari ya dunia", "Hello world"}},
	}))
	check(len(embeddings.Data) == 2 && len(embeddings.Data[1].Embedding) == 384, "embeddings", embeddings.Usage)

	requests := must(os.Open(os.Getenv("REQUESTS")))
	file := must(client.Files.New(ctx, openai.FileNewParams{File: requests, Purpose: openai.FilePurposeBatch}))
	check(time.Since(time.Unix(file.CreatedAt, 0)).Abs() < time.Hour, "created_at", file.CreatedAt)
	batch := must(client.Batches.New(ctx, openai.BatchNewParams{
		InputFileID:      file.ID,
		Endpoint:         openai.BatchNewParamsEndpointV1ChatCompletions,
		CompletionWindow: openai.BatchNewParamsCompletionWindow24h,
	}))
	for batch.OutputFileID == "" {
		check(batch.Status != openai.BatchStatusFailed && batch.ErrorFileID == "", "batch", batch.RawJSON())
		time.Sleep(200 * time.Millisecond)
		batch = must(client.Batches.Get(ctx, batch.ID))
	}
	content := must(client.Files.Content(ctx, batch.OutputFileID))
	results := string(must(io.ReadAll(content.Body)))
	check(strings.Count(results, "hello") == 2, "results", results)
	fmt.Printf("chat, stream, embeddings and a batch of %d\n", batch.RequestCounts.Completed)
}
