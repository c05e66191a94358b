import { EMBEDDING_MODEL, file, openai, type Recipe, shell } from './recipe.ts';

/** What programs are written with. */
export const LIBRARIES: Readonly<Record<string, Recipe>> = {
  langchain: {
    name: 'LangChain',
    parts: (values) => [
      shell(...openai(values)),
      {
        place: 'Python',
        language: 'python',
        text: [
          'from langchain_openai import ChatOpenAI, OpenAIEmbeddings',
          '',
          `chat = ChatOpenAI(model="${values.model}")`,
          'print(chat.invoke("Hello").content)',
          `embeddings = OpenAIEmbeddings(model="${EMBEDDING_MODEL}", check_embedding_ctx_length=False)`,
          'print(len(embeddings.embed_query("Habari ya dunia")))',
        ].join('\n'),
      },
    ],
  },
  llamaindex: {
    name: 'LlamaIndex',
    parts: (values) => [
      shell(...openai(values)),
      {
        place: 'Python',
        language: 'python',
        text: [
          'import os',
          'from llama_index.embeddings.openai_like import OpenAILikeEmbedding',
          'from llama_index.llms.openai_like import OpenAILike',
          '',
          'server = {"api_base": os.environ["OPENAI_BASE_URL"], "api_key": os.environ["OPENAI_API_KEY"]}',
          `chat = OpenAILike(model="${values.model}", context_window=${values.contextLength}, is_chat_model=True, **server)`,
          'print(chat.complete("Hello"))',
          `embeddings = OpenAILikeEmbedding(model_name="${EMBEDDING_MODEL}", **server)`,
          'print(len(embeddings.get_text_embedding("Habari ya dunia")))',
        ].join('\n'),
      },
    ],
  },
  'spring-ai': {
    name: 'Spring AI',
    parts: ({ address, model }) => [
      file(
        'src/main/resources/application.properties',
        `spring.ai.openai.base-url=${address}`,
        `spring.ai.openai.api-key=\${BAOBAB_API_KEY}`,
        `spring.ai.openai.chat.options.model=${model}`,
        `spring.ai.openai.embedding.options.model=${EMBEDDING_MODEL}`,
      ),
    ],
  },
  langchain4j: {
    name: 'langchain4j',
    parts: ({ address, model }) => [
      {
        place: 'Java',
        language: 'java',
        text: [
          'var chat = OpenAiChatModel.builder()',
          `        .baseUrl("${address}/v1")`,
          '        .apiKey(System.getenv("BAOBAB_API_KEY"))',
          `        .modelName("${model}")`,
          '        .build();',
          'System.out.println(chat.chat("Hello"));',
          'var embeddings = OpenAiEmbeddingModel.builder()',
          `        .baseUrl("${address}/v1")`,
          '        .apiKey(System.getenv("BAOBAB_API_KEY"))',
          `        .modelName("${EMBEDDING_MODEL}")`,
          '        .build();',
          'System.out.println(embeddings.embed("Habari ya dunia").content().dimension());',
        ].join('\n'),
      },
    ],
  },
  'openai-java': {
    name: 'openai-java',
    parts: (values) => [
      shell(...openai(values)),
      { place: 'Java', language: 'java', text: 'OpenAIClient client = OpenAIOkHttpClient.fromEnv();' },
    ],
  },
  'openai-go': {
    name: 'openai-go',
    parts: (values) => [
      shell(...openai(values)),
      { place: 'Go', language: 'go', text: 'client := openai.NewClient()' },
    ],
  },
  'async-openai': {
    name: 'async-openai',
    parts: (values) => [
      shell(...openai(values)),
      { place: 'Rust', language: 'rust', text: 'let client = async_openai::Client::new();' },
    ],
  },
};
