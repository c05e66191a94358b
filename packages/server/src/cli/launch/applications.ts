import { AUDIO_MODEL, EMBEDDING_MODEL, file, form, RERANK_MODEL, type Recipe, shell } from './recipe.ts';

/** Programs with an interface of their own, and tools that measure. */
export const APPLICATIONS: Readonly<Record<string, Recipe>> = {
  'open-webui': {
    name: 'Open WebUI',
    parts: ({ address }) => [
      shell(
        'export ENABLE_OLLAMA_API=false',
        `export OPENAI_API_BASE_URL=${address}/v1`,
        'export OPENAI_API_KEY=$BAOBAB_API_KEY',
        'export RAG_EMBEDDING_ENGINE=openai',
        `export RAG_OPENAI_API_BASE_URL=${address}/v1`,
        'export RAG_OPENAI_API_KEY=$BAOBAB_API_KEY',
        `export RAG_EMBEDDING_MODEL=${EMBEDDING_MODEL}`,
        'export RAG_EMBEDDING_BATCH_SIZE=32',
        'export CHUNK_SIZE=400 CHUNK_OVERLAP=40',
        'export ENABLE_RAG_HYBRID_SEARCH=true',
        'export RAG_RERANKING_ENGINE=external',
        `export RAG_RERANKING_MODEL=${RERANK_MODEL}`,
        `export RAG_EXTERNAL_RERANKER_URL=${address}/v1/rerank`,
        'export RAG_EXTERNAL_RERANKER_API_KEY=$BAOBAB_API_KEY',
        'export AUDIO_STT_ENGINE=openai',
        `export AUDIO_STT_OPENAI_API_BASE_URL=${address}/v1`,
        'export AUDIO_STT_OPENAI_API_KEY=$BAOBAB_API_KEY',
        `export AUDIO_STT_MODEL=${AUDIO_MODEL}`,
        'open-webui serve',
      ),
    ],
  },
  litellm: {
    name: 'LiteLLM',
    parts: ({ address, model, contextLength, maxOutputTokens }) => [
      file(
        'config.yaml',
        'model_list:',
        '  - model_name: chat',
        '    litellm_params:',
        `      model: openai/${model}`,
        `      api_base: ${address}/v1`,
        '      api_key: os.environ/BAOBAB_API_KEY',
        `    model_info: { mode: chat, max_input_tokens: ${contextLength}, max_output_tokens: ${maxOutputTokens} }`,
        '  - model_name: embed',
        '    litellm_params:',
        `      model: openai/${EMBEDDING_MODEL}`,
        `      api_base: ${address}/v1`,
        '      api_key: os.environ/BAOBAB_API_KEY',
        '    model_info: { mode: embedding }',
        '  - model_name: rerank',
        '    litellm_params:',
        `      model: jina_ai/${RERANK_MODEL}`,
        `      api_base: ${address}/v1/rerank`,
        '      api_key: os.environ/BAOBAB_API_KEY',
        '    model_info: { mode: rerank }',
      ),
      shell('export LITELLM_MASTER_KEY=sk-$(openssl rand -hex 32)', 'litellm --config config.yaml'),
    ],
  },
  n8n: {
    name: 'n8n',
    parts: ({ address, model }) => [
      form('Credentials → OpenAI', { 'API Key': '$BAOBAB_API_KEY', 'Base URL': `${address}/v1` }),
      form('Nodes', {
        'OpenAI Chat Model → Model (by ID)': model,
        'Embeddings OpenAI → Model (by ID)': EMBEDDING_MODEL,
      }),
    ],
  },
  flowise: {
    name: 'Flowise',
    parts: ({ address, model }) => [
      shell('export HTTP_SECURITY_CHECK=false', 'flowise start'),
      form('Credentials → OpenAI API', { 'OpenAI Api Key': '$BAOBAB_API_KEY' }),
      form('Nodes', {
        'ChatOpenAI Custom → Model Name': model,
        'ChatOpenAI Custom → BasePath': `${address}/v1`,
        'OpenAI Embeddings Custom → BasePath': `${address}/v1`,
        'OpenAI Embeddings Custom → Model Name': EMBEDDING_MODEL,
      }),
    ],
  },
  llm: {
    name: 'llm',
    parts: ({ address, model }) => [
      file(
        '~/.config/io.datasette.llm/extra-openai-models.yaml',
        '- model_id: baobab',
        `  model_name: ${model}`,
        `  api_base: ${address}/v1`,
        '  api_key_name: baobab',
        '  supports_tools: true',
        '  supports_schema: true',
      ),
      shell('llm keys set baobab --value "$BAOBAB_API_KEY"', 'llm -m baobab "What is the capital of Kenya?"'),
    ],
  },
  guidellm: {
    name: 'guidellm',
    parts: ({ address, model }) => [
      shell(
        `for i in $(seq 10); do echo '{"prompt": "What is '$i' times 7?"}'; done > prompts.jsonl`,
        'guidellm run --profile kind=synchronous --constraint kind=max_requests,count=10 \\',
        '  --data kind=json_file,path=prompts.jsonl \\',
        `  --backend "kind=openai_http,target=${address},api_key=$BAOBAB_API_KEY,model=${model}"`,
      ),
    ],
  },
  'lm-eval': {
    name: 'lm-eval',
    parts: ({ address, model, contextLength }) => [
      shell(
        'export OPENAI_API_KEY=$BAOBAB_API_KEY',
        'export TOKENIZER=path-or-hub-name-of-its-tokenizer',
        'lm-eval run --model local-completions --tasks arc_easy --limit 20 --model_args \\',
        `  model=${model},base_url=${address}/v1/completions,tokenizer=$TOKENIZER,max_length=${contextLength}`,
      ),
    ],
  },
};
