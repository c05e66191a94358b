"""Writes tiny models that take images, with random weights: tiny_vision_models.py FOLDER. tiny_models.py must have written its own before."""

import pathlib
import sys

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import (
    AutoTokenizer,
    CLIPConfig,
    CLIPImageProcessor,
    CLIPModel,
    CLIPProcessor,
    CLIPVisionConfig,
    LlamaConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaProcessor,
    PreTrainedTokenizerFast,
)

FOLDER = pathlib.Path(sys.argv[1])
IMAGE_SIZE, PATCH_SIZE = 56, 14
TEMPLATE = """{%- for message in messages %}<|im_start|>{{ message.role }}
{% if message.content is string %}{{ message.content }}{% else %}{% for part in message.content %}{{ part.text if part.type == 'text' else '<image>' }}{% endfor %}{% endif %}<|im_end|>
{% endfor %}{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


def image_processor():
    size = {"height": IMAGE_SIZE, "width": IMAGE_SIZE}
    return CLIPImageProcessor(size={"shortest_edge": IMAGE_SIZE}, crop_size=size)


def vision_shape():
    return dict(
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        image_size=IMAGE_SIZE,
        patch_size=PATCH_SIZE,
        projection_dim=64,
    )


def rename_vision_weights(folder):
    """transformers 5 leaves out a level of their names that vLLM expects."""
    path = folder / "model.safetensors"
    old, new = "vision_tower.", "vision_tower.vision_model."
    weights = {name if new in name else name.replace(old, new): value for name, value in load_file(path).items()}
    save_file(weights, path, metadata={"format": "pt"})


def write_chat(folder):
    words = AutoTokenizer.from_pretrained(FOLDER / "tiny-chat")
    words.add_special_tokens({"additional_special_tokens": ["<image>"]})
    words.chat_template = TEMPLATE
    text = LlamaConfig(
        vocab_size=len(words),
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=2048,
        eos_token_id=words.eos_token_id,
        bos_token_id=None,
        pad_token_id=None,
    )
    config = LlavaConfig(
        vision_config=CLIPVisionConfig(**vision_shape()),
        text_config=text,
        image_token_index=words.convert_tokens_to_ids("<image>"),
        image_seq_length=(IMAGE_SIZE // PATCH_SIZE) ** 2,
        vision_feature_layer=-1,
    )
    LlavaForConditionalGeneration(config).save_pretrained(folder)
    rename_vision_weights(folder)
    LlavaProcessor(
        image_processor=image_processor(),
        tokenizer=words,
        patch_size=PATCH_SIZE,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=TEMPLATE,
    ).save_pretrained(folder)


def write_embedding(folder):
    named = dict(pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]")
    own = Tokenizer(models.BPE())
    own.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    # vLLM stands in for the image with token 0, which must be no special one.
    specials = ["!", *named.values()]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=700, special_tokens=specials, initial_alphabet=alphabet)
    own.train_from_iterator([pathlib.Path(__file__).read_text()], trainer)
    words = PreTrainedTokenizerFast(tokenizer_object=own, model_max_length=77, **named)
    text = dict(
        vocab_size=len(words),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=77,
        projection_dim=64,
        bos_token_id=words.cls_token_id,
        eos_token_id=words.sep_token_id,
        pad_token_id=words.pad_token_id,
    )
    CLIPModel(CLIPConfig(text_config=text, vision_config=vision_shape(), projection_dim=64)).save_pretrained(folder)
    CLIPProcessor(image_processor=image_processor(), tokenizer=words).save_pretrained(folder)


torch.manual_seed(0)
write_chat(FOLDER / "tiny-vision")
write_embedding(FOLDER / "tiny-clip")
