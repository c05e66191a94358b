import { file, type Recipe, shell } from './recipe.ts';

/** Programs that edit code. */
export const AGENTS: Readonly<Record<string, Recipe>> = {
  codex: {
    name: 'Codex',
    parts: ({ address, model, contextLength }) => [
      file(
        '~/.codex/config.toml',
        `model = "${model}"`,
        'model_provider = "baobab"',
        `model_context_window = ${contextLength}`,
        '[model_providers.baobab]',
        'name = "Baobab"',
        `base_url = "${address}/v1"`,
        'env_key = "BAOBAB_API_KEY"',
      ),
      shell('codex'),
    ],
    launch: {
      program: 'codex',
      install: 'npm install -g @openai/codex',
      instructionTokens: 7_300,
      args: ({ address, model, contextLength }) => [
        ...['-c', `model=${JSON.stringify(model)}`, '-c', 'model_provider="baobab"'],
        ...['-c', `model_context_window=${contextLength}`],
        '-c',
        `model_providers.baobab={name="Baobab",base_url="${address}/v1",env_key="BAOBAB_API_KEY",wire_api="responses"}`,
      ],
      env: ({ key }) => ({ BAOBAB_API_KEY: key }),
    },
  },
  claude: {
    name: 'Claude Code',
    parts: ({ address, model, contextLength, maxOutputTokens }) => [
      shell(
        `export ANTHROPIC_BASE_URL=${address}`,
        'export ANTHROPIC_API_KEY=$BAOBAB_API_KEY',
        `export CLAUDE_CODE_MAX_CONTEXT_TOKENS=${contextLength}`,
        `export CLAUDE_CODE_MAX_OUTPUT_TOKENS=${maxOutputTokens}`,
        `claude --model ${model}`,
      ),
    ],
    launch: {
      program: 'claude',
      install: 'npm install -g @anthropic-ai/claude-code',
      instructionTokens: 12_500,
      args: ({ model }) => ['--model', model],
      env: ({ address, key, model, contextLength, maxOutputTokens }) => ({
        ANTHROPIC_BASE_URL: address,
        // It asks before it uses a key of ANTHROPIC_API_KEY that it has not seen.
        ANTHROPIC_AUTH_TOKEN: key,
        ANTHROPIC_API_KEY: undefined,
        // For titles and summaries.
        ANTHROPIC_DEFAULT_HAIKU_MODEL: model,
        CLAUDE_CODE_MAX_CONTEXT_TOKENS: String(contextLength),
        CLAUDE_CODE_MAX_OUTPUT_TOKENS: String(maxOutputTokens),
      }),
    },
  },
  opencode: {
    name: 'opencode',
    parts: ({ address, model, contextLength, maxOutputTokens }) => [
      file(
        '~/.config/opencode/opencode.json',
        '{',
        '  "provider": {',
        '    "baobab": {',
        '      "npm": "@ai-sdk/openai-compatible",',
        `      "options": { "baseURL": "${address}/v1", "apiKey": "{env:BAOBAB_API_KEY}" },`,
        `      "models": { "${model}": { "limit": { "context": ${contextLength}, "output": ${maxOutputTokens} } } }`,
        '    }',
        '  }',
        '}',
      ),
      shell(`opencode -m baobab/${model}`),
    ],
  },
  cline: {
    name: 'Cline',
    parts: ({ address, model }) => [
      shell(`cline auth openai --baseurl ${address}/v1 --apikey "$BAOBAB_API_KEY" --modelid ${model}`, 'cline'),
    ],
  },
  continue: {
    name: 'Continue',
    parts: ({ address, model, contextLength, maxOutputTokens }) => [
      file(
        '~/.continue/config.yaml',
        'name: Baobab',
        'version: 1.0.0',
        'schema: v1',
        'models:',
        '  - name: Baobab',
        '    provider: openai',
        `    model: ${model}`,
        `    apiBase: ${address}/v1`,
        `    apiKey: \${{ secrets.BAOBAB_API_KEY }}`,
        '    roles: [chat, edit, apply]',
        '    capabilities: [tool_use]',
        `    defaultCompletionOptions: { contextLength: ${contextLength}, maxTokens: ${maxOutputTokens} }`,
      ),
      shell('cn --config ~/.continue/config.yaml'),
    ],
  },
  qwen: {
    name: 'Qwen Code',
    parts: ({ address, model, contextLength, maxOutputTokens }) => [
      file(
        '~/.qwen/settings.json',
        '{',
        '  "modelProviders": {',
        '    "openai": [',
        '      {',
        `        "id": "${model}",`,
        `        "baseUrl": "${address}/v1",`,
        '        "envKey": "BAOBAB_API_KEY",',
        '        "generationConfig": {',
        `          "contextWindowSize": ${contextLength},`,
        `          "samplingParams": { "max_tokens": ${maxOutputTokens} }`,
        '        }',
        '      }',
        '    ]',
        '  },',
        '  "security": { "auth": { "selectedType": "openai" } },',
        `  "model": { "name": "${model}" }`,
        '}',
      ),
      shell('qwen'),
    ],
  },
  pi: {
    name: 'pi',
    parts: ({ address, model, contextLength, maxOutputTokens }) => [
      file(
        '~/.pi/agent/models.json',
        '{',
        '  "providers": {',
        '    "baobab": {',
        `      "baseUrl": "${address}/v1",`,
        '      "api": "openai-completions",',
        '      "apiKey": "BAOBAB_API_KEY",',
        `      "models": [{ "id": "${model}", "contextWindow": ${contextLength}, "maxTokens": ${maxOutputTokens} }]`,
        '    }',
        '  }',
        '}',
      ),
      shell(`pi --provider baobab --model ${model}`),
    ],
  },
  copilot: {
    name: 'Copilot CLI',
    parts: ({ address, model, contextLength, maxOutputTokens }) => [
      shell(
        'export COPILOT_OFFLINE=true',
        `export COPILOT_PROVIDER_BASE_URL=${address}/v1`,
        'export COPILOT_PROVIDER_API_KEY=$BAOBAB_API_KEY',
        `export COPILOT_PROVIDER_MAX_PROMPT_TOKENS=${contextLength - maxOutputTokens}`,
        `export COPILOT_PROVIDER_MAX_OUTPUT_TOKENS=${maxOutputTokens}`,
        `export COPILOT_MODEL=${model}`,
        'copilot',
      ),
    ],
  },
  aider: {
    name: 'aider',
    parts: ({ address, model, contextLength, maxOutputTokens }) => [
      file(
        '.aider.model.metadata.json',
        '{',
        `  "openai/${model}": {`,
        '    "litellm_provider": "openai",',
        '    "mode": "chat",',
        `    "max_input_tokens": ${contextLength},`,
        `    "max_output_tokens": ${maxOutputTokens},`,
        '    "input_cost_per_token": 0,',
        '    "output_cost_per_token": 0',
        '  }',
        '}',
      ),
      shell(
        `export OPENAI_API_BASE=${address}/v1`,
        'export OPENAI_API_KEY=$BAOBAB_API_KEY',
        `aider --model openai/${model} --edit-format whole`,
      ),
    ],
  },
};
