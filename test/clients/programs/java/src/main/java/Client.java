import com.openai.client.OpenAIClient;
import com.openai.client.okhttp.OpenAIOkHttpClient;
import com.openai.core.http.HttpResponse;
import com.openai.core.http.StreamResponse;
import com.openai.models.batches.Batch;
import com.openai.models.batches.BatchCreateParams;
import com.openai.models.chat.completions.ChatCompletionChunk;
import com.openai.models.chat.completions.ChatCompletionCreateParams;
import com.openai.models.embeddings.EmbeddingCreateParams;
import com.openai.models.files.FileCreateParams;
import com.openai.models.files.FileObject;
import com.openai.models.files.FilePurpose;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.stream.Collectors;

/** Chat, a stream, embeddings, and a batch from upload to results with openai-java. */
public final class Client {
    private static void check(boolean holds, Object value) {
        if (!holds) throw new AssertionError(value);
    }

    public static void main(String[] args) throws Exception {
        OpenAIClient client = OpenAIOkHttpClient.fromEnv();
        // Wrong types in answers are errors, not only when a field is read.
        client = client.withOptions(options -> options.responseValidation(true));

        ChatCompletionCreateParams chat = ChatCompletionCreateParams.builder()
                .model(System.getenv("MODEL"))
                .addUserMessage("Hello")
                .build();
        String text = client.chat().completions().create(chat).choices().get(0).message().content().orElse("");
        check(text.contains("hello"), text);

        try (StreamResponse<ChatCompletionChunk> stream = client.chat().completions().createStreaming(chat)) {
            String streamed = stream.stream()
                    .flatMap(chunk -> chunk.choices().stream())
                    .flatMap(choice -> choice.delta().content().stream())
                    .collect(Collectors.joining());
            check(streamed.equals(text), streamed);
        }

        EmbeddingCreateParams texts = EmbeddingCreateParams.builder()
                .model(System.getenv("EMBEDDING_MODEL"))
                .inputOfArrayOfStrings(List.of("Habari ya dunia", "Hello world"))
                .build();
        var embeddings = client.embeddings().create(texts).data();
        check(embeddings.size() == 2 && embeddings.get(1).embedding().size() == 384, embeddings);

        FileObject file = client.files().create(FileCreateParams.builder()
                .purpose(FilePurpose.BATCH)
                .file(Path.of(System.getenv("REQUESTS")))
                .build());
        check(Math.abs(Instant.now().getEpochSecond() - file.createdAt()) < 3600, file);
        Batch batch = client.batches().create(BatchCreateParams.builder()
                .inputFileId(file.id())
                .endpoint(BatchCreateParams.Endpoint.V1_CHAT_COMPLETIONS)
                .completionWindow(BatchCreateParams.CompletionWindow._24H)
                .build());
        Instant deadline = Instant.now().plus(Duration.ofMinutes(2));
        while (batch.outputFileId().isEmpty()) {
            check(!batch.status().equals(Batch.Status.FAILED) && batch.errorFileId().isEmpty(), batch);
            check(Instant.now().isBefore(deadline), batch);
            Thread.sleep(200);
            batch = client.batches().retrieve(batch.id());
        }
        try (HttpResponse content = client.files().content(batch.outputFileId().get())) {
            String results = new String(content.body().readAllBytes(), StandardCharsets.UTF_8);
            check(results.split("hello", -1).length == 3, results);
        }
        System.out.println("chat, stream, embeddings and a batch of " + batch.requestCounts().get().completed());
        System.exit(0);
    }
}
