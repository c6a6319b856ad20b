"""Families of published models for published.py: which class and shape a folder has, whose tokenizer, which template and ends.

A row: title, the tiny model of tests/convert/models.py (or encoders.py) that has the class's tensors, the npm package's name of the
tokenizer, whether that is the family's own, and what else the folder says. Configurations are written after the published ones, with
sizes reduced; weights are random.
  config     members of config.json over those of the tiny model
  text       the same of what the model's weights follow, in text_config where there is one
  ends       texts of the tokens that end an answer: eos_token_id of generation_config.json and config.json
  template   a file of ../shared/data/templates/jinja, where the tokenizer's own settings have none
  settings   members of tokenizer_config.json over the published ones
  added      further added tokens, (text, special, {flags}), after the tokenizer's own
  pre        the pre-tokenizer (of tests/convert/folders.py) in place of the tokenizer's own
  tiktoken   the tokenizer is written as tiktoken.model, with 256 special ids after its ranks
  layers     how many, where llama.cpp knows a kind of model by their number
  rows       of the embedding, where it is not the next multiple of 64
  oracle     why llama.cpp's logits are not compared
"""


def family(title, model, tokenizer, own, **more):
    return {"title": title, "model": model, "tokenizer": tokenizer, "own": own, "config": {}, "text": {}, "ends": [], "template": None,
            "settings": {}, "added": [], "rows": None, "oracle": "", "pre": None, "tiktoken": False,
            **more}


LLAMA3 = {"attention_bias": False, "attention_dropout": 0.0, "hidden_act": "silu", "initializer_range": 0.02, "mlp_bias": False,
          "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_theta": 500000.0, "transformers_version": "4.43.0.dev0", "use_cache": True}
ROPE3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"}
QWEN = {"attention_bias": False, "attention_dropout": 0.0, "hidden_act": "silu", "initializer_range": 0.02, "max_window_layers": 28,
        "rope_scaling": None, "sliding_window": None, "transformers_version": "4.51.0", "use_cache": True, "use_sliding_window": False}
GEMMA = {"attention_bias": False, "attention_dropout": 0.0, "hidden_activation": "gelu_pytorch_tanh", "initializer_range": 0.02,
         "use_cache": True}
CHATML = [("<|im_start|>", True, {}), ("<|im_end|>", True, {})]
PHI = [(t, True, {"rstrip": True}) for t in ("<|assistant|>", "<|end|>", "<|user|>", "<|system|>", "<|tool|>", "<|/tool|>", "<|tool_call|>",
                                             "<|/tool_call|>", "<|tool_response|>")]

GEMMA4 = [(t, True, {}) for t in ("<|turn>", "<turn|>", "<|think|>")] + [(t, False, {}) for t in (
    "<|channel>", "<channel|>", "<|tool>", "<tool|>", "<|tool_call>", "<tool_call|>", "<|tool_response>", "<tool_response|>", '<|"|>')]
LLAMA4 = [(t, True, {}) for t in ("<|begin_of_text|>", "<|end_of_text|>", "<|header_start|>", "<|header_end|>", "<|eom|>", "<|eot|>",
                                  "<|python_start|>", "<|python_end|>")]

FAMILIES = [
    family("Llama 2", "mistral", "llama2", True, ends=["</s>"], config={
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "pretraining_tp": 1, "rope_scaling": None, "rms_norm_eps": 1e-05,
        "max_position_embeddings": 4096, "bos_token_id": 1}),
    family("Llama 3", "llama3", "llama3", True, ends=["<|end_of_text|>", "<|eot_id|>"], config={**LLAMA3, "rope_scaling": None}),
    family("Llama 3.1, 3.3", "llama3", "llama3_1", True, ends=["<|end_of_text|>", "<|eot_id|>"],
           config={**LLAMA3, "rope_scaling": ROPE3, "max_position_embeddings": 131072}),
    family("Llama 3.2", "llama3", "llama3_1", True, template="meta-llama-Llama-3.2-3B-Instruct.jinja",
           ends=["<|end_of_text|>", "<|eot_id|>"], tied=True, config={
               **LLAMA3, "rope_scaling": {**ROPE3, "factor": 32.0}, "tie_word_embeddings": True}),
    family("Llama 4 (text)", "llama4-text", "gpt4o", False, ends=["<|end_of_text|>", "<|eom|>", "<|eot|>"], added=LLAMA4, config={
        "attn_temperature_tuning": True, "floor_scale": 8192, "attn_scale": 0.1, "no_rope_layers": [1, 1, 1, 0, 1], "rope_scaling": {
            **ROPE3, "factor": 16.0, "high_freq_factor": 1.0}, "max_position_embeddings": 10485760}, settings={
                "add_bos_token": True, "bos_token": "<|begin_of_text|>", "eos_token": "<|eot|>"}),
    family("Mistral 7B", "mistral", "llama2", False, ends=["</s>"], config={"sliding_window": None, "rope_theta": 1000000.0}),
    family("Qwen2.5", "qwen2", "qwen3", False, template="Qwen-Qwen2.5-7B-Instruct.jinja", ends=["<|im_end|>", "<|endoftext|>"],
           config={**QWEN, "sliding_window": 131072}, rows=151936),
    family("Qwen2 MoE", "qwen2moe", "qwen3", False, ends=["<|im_end|>", "<|endoftext|>"], config={**QWEN, "router_aux_loss_coef": 0.001}),
    family("Qwen3", "qwen3", "qwen3", True, ends=["<|im_end|>", "<|endoftext|>"], config=QWEN, rows=151936),
    family("Qwen3 MoE", "qwen3moe", "qwen3", True, ends=["<|im_end|>", "<|endoftext|>"], config={**QWEN, "mlp_only_layers": []}),
    family("Qwen3.5", "qwen35", "qwen3", False, template="Qwen3.5-4B.jinja", ends=["<|im_end|>", "<|endoftext|>"],
           config={"max_position_embeddings": 262144, "mtp_num_hidden_layers": 1}),
    family("Qwen3-Next", "qwen3next", "qwen3", False, ends=["<|im_end|>", "<|endoftext|>"], rows=151936),
    family("DeepSeek R1 Distill Qwen", "qwen2", "qwen3", False, template="deepseek-ai-DeepSeek-R1-Distill-Qwen-32B.jinja",
           ends=["<|endoftext|>"], config={**QWEN, "sliding_window": 131072}, settings={"add_bos_token": True, "bos_token": "<|endoftext|>"}),
    family("DeepSeek R1 Distill Llama", "llama3", "llama3_1", False, template="deepseek-ai-DeepSeek-R1-Distill-Llama-8B.jinja",
           ends=["<|end_of_text|>"], config={**LLAMA3, "rope_scaling": ROPE3}),
    family("Gemma 2", "gemma2", "gemini", True, ends=["<eos>", "<end_of_turn>"], config={**GEMMA, "cache_implementation": "hybrid"}),
    family("Gemma 3 1B, 270M", "gemma3", "gemma3", True, ends=["<eos>", "<end_of_turn>"], rows=262144, config=GEMMA),
    family("Gemma 3 4B and above", "gemma3-vision", "gemma3", True, ends=["<eos>", "<end_of_turn>"], rows=262208,
           config={"boi_token_index": 255999, "image_token_index": 262144, "mm_tokens_per_image": 256}),
    family("Gemma 3n", "gemma3n", "gemma3", False, rows=262144, text={"vocab_size_per_layer_input": 262144}, ends=["<eos>", "<end_of_turn>"], oracle="llama.cpp takes models of 30 and 35 layers alone"),
    family("Gemma 4", "gemma4", "gemma3", False, template="google-gemma-4-31B-it.jinja", ends=["<eos>", "<turn|>"], added=GEMMA4),
    family("Gemma 4 26B-A4B", "gemma4-experts", "gemma3", False, template="google-gemma-4-31B-it-interleaved.jinja", ends=["<eos>", "<turn|>"],
           added=GEMMA4),
    family("gpt-oss", "gpt-oss", "gptoss", True, template="openai-gpt-oss-120b.jinja", ends=["<|return|>", "<|endoftext|>", "<|call|>"],
           rows=201088, config={"experts_per_token": 2, "initial_context_length": 4096, "output_router_logits": False}),
    family("Phi-3.5-mini", "longrope", "llama2", False, template="microsoft-Phi-3.5-mini-instruct.jinja", ends=["<|end|>", "<|user|>"],
           added=PHI, oracle="", config={"original_max_position_embeddings": 4096}, settings={"add_bos_token": False}),
    family("Phi-4-mini", "fused", "gpt4o", False, template=None, ends=["<|end|>", "<|endoftext|>"], added=PHI,
           oracle="llama.cpp computes phi3 without its window"),
    family("BitNet b1.58 2B4T", "bitnet", "llama3", True, ends=["<|end_of_text|>", "<|eot_id|>"], oracle="llama.cpp has silu for its squared gate"),
    family("BitNet, first models", "bitnet-first", "llama2", True, ends=["</s>"]),
    family("SmolLM3", "smollm3", "llama3_1", False, template="HuggingFaceTB-SmolLM3-3B.jinja", added=CHATML, ends=["<|im_end|>"]),
    family("Granite 3", "granite", "gpt35turbo", False, template="ibm-granite-granite-3.3-2B-Instruct.jinja", ends=["<|endoftext|>"]),
    family("ERNIE 4.5", "ernie", "llama2", False, ends=["</s>"], config={"rope_theta": 500000}),
    family("GLM-4", "glm4", "gpt35turbo", False, ends=["<|endoftext|>"]),
    family("Hunyuan", "hunyuan", "deepseek_v3", False, ends=["<｜end▁of▁sentence｜>"]),
    family("Ministral 3", "mistral3", "llama3", False, template="mistralai-Ministral-3-14B-Reasoning-2512.jinja",
           ends=["<|end_of_text|>"]),
    family("EXAONE 4", "exaone4-full", "qwen3", False, ends=["<|im_end|>"]),
    family("OLMo 2", "olmo2", "gpt35turbo", False, ends=["<|endoftext|>"]),
    family("OLMo 3", "olmo3", "gpt35turbo", False, ends=["<|endoftext|>"]),
    family("OLMoE", "olmoe", "gpt35turbo", False, ends=["<|endoftext|>"]),
    family("Command R, Aya", "cohere", "gpt35turbo", False, template="CohereForAI-c4ai-command-r-plus-tool_use.jinja", ends=["<|endoftext|>"]),
    family("Command R7B", "cohere2", "gpt35turbo", False, template="CohereForAI-c4ai-command-r7b-12-2024-tool_use.jinja",
           ends=["<|endoftext|>"]),
    family("Granite 3 MoE", "granitemoe", "gpt35turbo", False, ends=["<|endoftext|>"]),
    family("Granite 4 H", "granitehybrid", "gpt35turbo", False, template="ibm-granite-granite-4.0.jinja", ends=["<|endoftext|>"]),
    family("Falcon-H1", "falcon-h1", "llama3_1", False, ends=["<|end_of_text|>"]),
    family("Mamba", "mamba", "gpt35turbo", False, ends=["<|endoftext|>"]),
    family("Mamba-2", "mamba2", "gpt35turbo", False, ends=["<|endoftext|>"]),
    family("Nemotron-H", "nemotron-h", "llama3", False, template="NVIDIA-Nemotron-Nano-v2.jinja", ends=["<|end_of_text|>"]),
    family("Nemotron 3 Nano", "nemotron-h-moe", "llama3", False, template="NVIDIA-Nemotron-3-Nano-30B-A3B-BF16.jinja",
           ends=["<|end_of_text|>"]),
    family("ERNIE 4.5 MoE", "erniemoe", "llama2", False, ends=["</s>"]),
    family("DeepSeek V2 Lite", "deepseek2", "deepseek_v3", False, layers=27, ends=["<｜end▁of▁sentence｜>"]),
    family("DeepSeek V3, R1", "deepseek3", "deepseek_v3", True, ends=["<｜end▁of▁sentence｜>"], rows=129280),
    family("Kimi K2, Moonlight (tiktoken.model)", "deepseek3", "gpt4o", False, pre="kimi-k2", tiktoken=True, ends=["[EOS]", "<|im_end|>"], settings={
        "tokenizer_class": "TikTokenTokenizer", "bos_token": "[BOS]", "eos_token": "[EOS]"}),
    family("Falcon 7B (its words, on Llama)", "llama3", "gpt35turbo", False, pre="falcon", ends=["<|endoftext|>"]),
    family("LFM2 MoE", "lfm2moe", "llama3", False, template="LFM2-8B-A1B.jinja", ends=["<|end_of_text|>"]),
    family("LFM2", "lfm2", "llama3", False, template="LFM2.5-Instruct.jinja", ends=["<|end_of_text|>"]),
]

# whole folders of sentence-transformers, whose vectors are compared with the forward pass in numpy
ENCODERS = [("all-MiniLM, bge, m3e (BERT)", "bert"), ("bge with the first token, cased (BERT)", "bert-cls"), ("one dense layer with a bias (BERT)", "bert-dense"),
            ("e5, bge-m3 (XLM-R)", "xlm-roberta"), ("nomic-embed-text", "nomic"), ("nomic-embed-text v2 (experts)", "nomic-moe"), ("ModernBERT, gte-modernbert", "modern"), ("EmbeddingGemma", "gemma-embedding"),
            ("Qwen3-Embedding", "qwen3-embedding")]

# folders whose scores of pairs are compared
RERANKERS = [("ms-marco (BERT, one label)", "cross-encoder"), ("bge-reranker (XLM-R, one label)", "xlm-reranker"), ("Qwen3-Reranker, its own tokenizer", "qwen3")]
