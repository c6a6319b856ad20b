"""Tiny models of every class that can be converted, and a forward pass in numpy over the folder's own layout: half-split
rotary pairs, fused tensors as they lie, Gemma's norms as w - 1. Keys and values are rounded to F16, as the engine
holds them; everything else is f64, so what remains of a difference is the engine's f32."""
import math
import os

import numpy as np

import bitnet
import folders
import gemma3n
import gemma4
import llama4
import mamba
import mixtures
import mtp

D, FF, LAYERS = 256, 512, 2


def spec(cls, kind, **more):
    base = {"cls": cls, "kind": kind, "heads": 8, "kv": 2, "hd": 32, "rows": 512, "tied": False, "dtype": "BF16",
            "files": 1, "config": {}, "drop": [], "theta": 10000.0, "window": 0, "rope": None, "bias": False,
            "pre": None, "spm": None, "share": 1.0, "eps": 1e-6, "ctx": 4096}
    return {**base, **more}


LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}
YARN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
MINISTRAL = {"rope_type": "yarn", "type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32, "beta_fast": 32.0,
             "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1, "rope_theta": 1e6}
OLMO_YARN = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 64, "attention_factor": 1.3,
             "beta_fast": 32, "beta_slow": 1}
OSS = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 64, "beta_fast": 32.0, "beta_slow": 1.0}
LONG = {"type": "longrope", "long_factor": [1.0 + 0.5 * i for i in range(12)], "short_factor": [1.0] * 12}
S = ("<s>", "</s>", "<unk>", None, "<|end|>")
G = ("<bos>", "<eos>", "<unk>", "<pad>", "<end_of_turn>")

MODELS = {
    "llama3": spec("LlamaForCausalLM", "llama", files=3, pre="llama-bpe", theta=500000.0, rope=LLAMA3),
    "llama-bias": spec("LlamaForCausalLM", "llama", kv=8, dtype="F16", spm=(S, True, {"json", "model"}), bias=True,
                       drop=["num_key_value_heads", "rope_theta"], config={"attention_bias": True}),
    "llama-linear": spec("LlamaForCausalLM", "llama", dtype="F32", pre="smollm", tied=True,
                         rope={"type": "linear", "factor": 2.0}),
    "mistral": spec("MistralForCausalLM", "llama", hd=48, dtype="F32", spm=(S, True, {"json"}), pad=False,
                    config={"head_dim": 48, "sliding_window": None}),
    "qwen2": spec("Qwen2ForCausalLM", "qwen2", tied=True, pre="qwen2", theta=1e6, pairs=True,
                  config={"use_sliding_window": False, "sliding_window": 32}),
    "qwen2-yarn": spec("Qwen2ForCausalLM", "qwen2", pre="qwen2", rope=YARN, dtype="F16"),
    # the one matrix of both under the head's name
    "qwen2-only-head": spec("Qwen2ForCausalLM", "qwen2", tied=True, pre="qwen2", theta=1e6, pairs=True, only_head=True),
    "qwen3": spec("Qwen3ForCausalLM", "qwen3", hd=64, heads=4, pre="qwen2", tied=True, stored_head=True,
                  drop=["rms_norm_eps"], config={"head_dim": 64}),
    "gemma2": spec("Gemma2ForCausalLM", "gemma2", hd=64, heads=4, tied=True, window=32, spm=(G, False, {"model", "json"}),
                   caps=(50.0, 30.0), drop=["tie_word_embeddings", "attn_logit_softcapping", "final_logit_softcapping"],
                   config={"head_dim": 64, "sliding_window": 32, "query_pre_attn_scalar": 64,
                           "hidden_activation": "gelu_pytorch_tanh"}),
    "gemma3": spec("Gemma3ForCausalLM", "gemma3", hd=64, heads=4, tied=True, window=32, theta=1e6, layers=7,
                   spm=(G, False, {"json"}), rope={"rope_type": "linear", "factor": 8.0}, drop=["tie_word_embeddings"],
                   config={"head_dim": 64, "sliding_window": 32, "query_pre_attn_scalar": 64, "sliding_window_pattern": 6,
                           "rope_local_base_freq": 10000, "hidden_activation": "gelu_pytorch_tanh"}),
    "gemma3-vision": spec("Gemma3ForConditionalGeneration", "gemma3", hd=64, heads=4, tied=True, window=32, theta=1e6,
                          layers=7, files=2, spm=(G, False, {"model"}), wrap="language_model.", nested=("gemma3", "gemma3_text"),
                          drop=["tie_word_embeddings", "rope_theta"],
                          config={"head_dim": 64, "sliding_window": 32, "query_pre_attn_scalar": 64,
                                  "layer_types": ["sliding_attention"] * 5 + ["full_attention", "sliding_attention"],
                                  "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 1e6},
                                                      "sliding_attention": {"rope_type": "default",
                                                                            "rope_theta": 10000.0}}}),
    "qwen3moe": spec("Qwen3MoeForCausalLM", "qwen3moe", hd=48, heads=4, pre="qwen2", theta=1e6, files=2, experts=(6, 2),
                     ff=256, config={"head_dim": 48, "num_experts": 6, "num_experts_per_tok": 2,
                                     "moe_intermediate_size": 256, "norm_topk_prob": True, "decoder_sparse_step": 1}),
    "qwen2moe": spec("Qwen2MoeForCausalLM", "qwen2moe", pre="qwen2", theta=1e6, experts=(5, 2), ff=128, shared=256,
                     config={"num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 128,
                             "shared_expert_intermediate_size": 256, "norm_topk_prob": False}),
    "olmoe": spec("OlmoeForCausalLM", "olmoe", kv=8, pre="smollm", eps=1e-5, experts=(4, 3), ff=512,
                  config={"num_experts": 4, "num_experts_per_tok": 3, "norm_topk_prob": False, "clip_qkv": None}),
    "gpt-oss": spec("GptOssForCausalLM", "gpt-oss", pre="gpt-4o", window=32, eps=1e-5, theta=150000.0, experts=(4, 2), ff=256,
                    layers=3, period=2, bias=True, rope=OSS, files=2,
                    config={"head_dim": 32, "num_local_experts": 4, "num_experts_per_tok": 2, "intermediate_size": 256,
                            "sliding_window": 32, "swiglu_limit": 7.0, "attention_bias": True,
                            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
                            "quantization_config": {"quant_method": "mxfp4"}}),
    "smollm3": spec("SmolLM3ForCausalLM", "smollm3", layers=5, tied=True, pre="dbrx", theta=2e6,
                    drop=["rope_theta", "tie_word_embeddings"], config={"no_rope_layers": [1, 1, 1, 0, 1]}),
    "granite": spec("GraniteForCausalLM", "granite", tied=True, pre="smollm", scales=(0.015625 * 8, 12.0, 0.22, 8.0),
                    config={"attention_multiplier": 0.015625 * 8, "embedding_multiplier": 12.0,
                            "residual_multiplier": 0.22, "logits_scaling": 8.0}),
    "longrope": spec("Phi3ForCausalLM", "phi3", kv=4, spm=(S, True, {"json"}), share=0.75, rope=LONG, eps=1e-5,
                 drop=["rms_norm_eps"], config={"partial_rotary_factor": 0.75, "sliding_window": None,
                                                "original_max_position_embeddings": 64}),
    "fused": spec("Phi3ForCausalLM", "phi3", kv=8, pre="gpt-4o", window=32, eps=1e-5, drop=["rms_norm_eps"],
                        config={"sliding_window": 32, "hidden_act": "silu"}),
    "ernie": spec("Ernie4_5ForCausalLM", "ernie", hd=48, tied=True, theta=500000.0, eps=1e-5, spm=(S, True, {"model"}),
                  drop=["rope_theta", "rms_norm_eps", "tie_word_embeddings"], config={"head_dim": 48, "use_bias": False}),
    "glm4": spec("Glm4ForCausalLM", "glm4", pre="dbrx", share=0.5, eps=1.5625e-7, bias=True,
                 drop=["rms_norm_eps", "rope_theta"], config={"head_dim": 32, "attention_bias": True}),
    "hunyuan": spec("HunYuanDenseV1ForCausalLM", "hunyuan", hd=48, pre="deepseek-v3", tied=True, eps=1e-5,
                    rope={"type": "dynamic", "alpha": 1000.0, "factor": 1.0}, drop=["rms_norm_eps"],
                    config={"attention_head_dim": 48}),
    "mistral3": spec("Mistral3ForConditionalGeneration", "mistral3", pre="tekken", hd=48, theta=1e6, eps=1e-5, files=2,
                     wrap="language_model.", nested=("mistral3", "ministral3"), rope=MINISTRAL, rope_key="rope_parameters",
                     drop=["rope_theta"], config={"head_dim": 48}),
    "mistral-small": spec("Mistral3ForConditionalGeneration", "llama", pre="tekken", theta=1e9, eps=1e-5,
                          wrap="language_model.", nested=("mistral3", None), config={"sliding_window": None}),
    "exaone4": spec("Exaone4ForCausalLM", "exaone4", pre="gpt-2", window=32, layers=5, eps=1e-5, rope=LLAMA3, period=4,
                    drop=["rms_norm_eps"], config={"sliding_window": 32, "sliding_window_pattern": "LLLG"}),
    "exaone4-full": spec("Exaone4ForCausalLM", "exaone4", pre="gpt-2", tied=True, theta=1e6, eps=1e-5,
                         config={"sliding_window": None, "sliding_window_pattern": None, "head_dim": 32,
                                 "layer_types": ["full_attention"] * 2}),
    "olmo2": spec("Olmo2ForCausalLM", "olmo2", pre="dbrx", theta=500000.0, drop=["num_key_value_heads"], kv=8),
    "olmo3": spec("Olmo3ForCausalLM", "olmo2", pre="dbrx", window=32, layers=5, theta=500000.0, rope=OLMO_YARN, period=3,
                  drop=["rope_theta"], config={"sliding_window": 32, "layer_types": [
                      "sliding_attention", "sliding_attention", "full_attention", "sliding_attention",
                      "sliding_attention"]}),
    "cohere": spec("CohereForCausalLM", "cohere2", pre="command-r", layers=3, tied=True, eps=1e-5, theta=8e6,
                   drop=["rms_norm_eps", "tie_word_embeddings"], logit_scale=0.125,
                   config={"logit_scale": 0.125, "layer_norm_eps": 1e-5, "use_qk_norm": False}),
    "cohere2": spec("Cohere2ForCausalLM", "cohere2", pre="command-r", window=32, layers=5, tied=True, eps=1e-5, period=4,
                    theta=50000.0, drop=["rms_norm_eps", "tie_word_embeddings"], logit_scale=0.25,
                    config={"sliding_window": 32, "logit_scale": 0.25, "layer_norm_eps": 1e-5}),
}
QWEN35 = {"head_dim": 64, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 32, "linear_value_head_dim": 32,
          "linear_num_key_heads": 2, "linear_num_value_heads": 6, "full_attention_interval": 3, "attn_output_gate": True,
          "rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "partial_rotary_factor": 0.25,
                              "mrope_interleaved": True, "mrope_section": [3, 3, 2]}}
QWEN35_LAYERS = {"layer_types": ["linear_attention", "linear_attention", "full_attention", "linear_attention"]}
QWEN35_MOE = {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 64, "shared_expert_intermediate_size": 96}
MODELS |= {
    "lfm2": spec("Lfm2ForCausalLM", "lfm2", layers=4, tied=True, theta=1e6, eps=1e-5, pre="llama-bpe", ff=768, attends=[2],
                 drop=["rms_norm_eps", "intermediate_size"],
                 config={"norm_eps": 1e-5, "conv_L_cache": 3, "conv_bias": False, "block_ff_dim": 1000,
                         "block_multiple_of": 256, "block_ffn_dim_multiplier": 1.0, "block_auto_adjust_ff_dim": True,
                         "layer_types": ["conv", "conv", "full_attention", "conv"]}),
    "lfm2-idxs": spec("Lfm2ForCausalLM", "lfm2", layers=3, tied=True, theta=1e6, eps=1e-5, pre="llama-bpe", ff=FF, attends=[1],
                      config={"norm_eps": 1e-5, "block_auto_adjust_ff_dim": False, "full_attn_idxs": [1]}),
    "qwen35": spec("Qwen3_5ForCausalLM", "qwen35", layers=4, heads=4, hd=64, share=0.25, theta=1e6, pre="qwen35", attends=[2],
                   drop=["rope_theta"], config=QWEN35, mtp=True),
    "qwen35-vision": spec("Qwen3_5ForConditionalGeneration", "qwen35", layers=4, heads=4, hd=64, share=0.25, theta=1e6, tied=True,
                          pre="qwen35", attends=[2], files=2, rename=("model.", "model.language_model."),
                          nested=("qwen3_5", "qwen3_5_text"), drop=["rope_theta"], config={**QWEN35, **QWEN35_LAYERS}),
    "qwen35moe": spec("Qwen3_5MoeForConditionalGeneration", "qwen35", layers=4, heads=4, hd=64, share=0.25, theta=1e6, pre="qwen35",
                      attends=[2], experts=(6, 2), ff=64, shared=96, stacked=True, rename=("model.", "model.language_model."),
                      nested=("qwen3_5_moe", "qwen3_5_moe_text"), drop=["rope_theta", "intermediate_size"], mtp=True,
                      config={**QWEN35, **QWEN35_MOE, **QWEN35_LAYERS}),
}
DEEPSEEK = {"qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "v_head_dim": 24, "kv_lora_rank": 64, "n_shared_experts": 1,
            "n_routed_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 64, "first_k_dense_replace": 1}
V3_YARN = {**YARN, "mscale": 1.0, "mscale_all_dim": 1.0, "beta_fast": 32, "beta_slow": 1}
MODELS |= {
    "granitemoe": spec("GraniteMoeForCausalLM", "granitemoe", tied=True, pre="smollm", scales=(0.125, 12.0, 0.22, 8.0), experts=(5, 2),
                       ff=128, lead=0, config={"attention_multiplier": 0.125, "embedding_multiplier": 12.0, "residual_multiplier": 0.22,
                                               "logits_scaling": 8.0, "num_local_experts": 5, "num_experts_per_tok": 2,
                                               "intermediate_size": 128}),
    "erniemoe": spec("Ernie4_5_MoeForCausalLM", "erniemoe", tied=True, theta=500000.0, eps=1e-5, pre="smollm", layers=3, experts=(6, 2),
                     ff=96, lead=1, n_shared=2, scores="softmax", drop=["rope_theta", "rms_norm_eps"],
                     config={"moe_num_experts": 6, "moe_k": 2, "moe_intermediate_size": 96, "moe_num_shared_experts": 2,
                             "moe_layer_start_index": 1, "moe_layer_interval": 1, "use_bias": False}),
    "lfm2moe": spec("Lfm2MoeForCausalLM", "lfm2", layers=4, tied=True, theta=1e6, eps=1e-5, pre="llama-bpe", ff=96, attends=[2], lead=2,
                    experts=(6, 2), scores="sigmoid", drop=["rms_norm_eps"],
                    config={"norm_eps": 1e-5, "num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 96, "num_dense_layers": 2,
                            "norm_topk_prob": True, "use_expert_bias": True, "routed_scaling_factor": 1.0, "conv_bias": False,
                            "layer_types": ["conv", "conv", "full_attention", "conv"]}),
    "deepseek2": spec("DeepseekV2ForCausalLM", "deepseek", layers=3, heads=4, pre="smollm", experts=(8, 3), ff=64, lead=1, n_shared=2,
                      scores="softmax", no_bias=True, config={**DEEPSEEK, "n_shared_experts": 2, "q_lora_rank": None, "norm_topk_prob": False,
                                                              "topk_method": "greedy", "n_group": 1, "topk_group": 1, "routed_scaling_factor": 1.0,
                                                              "scoring_func": "softmax"}),
    "deepseek3": spec("DeepseekV3ForCausalLM", "deepseek", layers=3, heads=4, pre="deepseek-v3", experts=(8, 3), ff=64, lead=1, n_shared=1,
                      scores="sigmoid", rope=V3_YARN, files=2, config={**DEEPSEEK, "q_lora_rank": 96, "norm_topk_prob": True, "n_group": 4,
                                                                       "topk_group": 2, "routed_scaling_factor": 2.5, "scoring_func": "sigmoid",
                                                                       "topk_method": "noaux_tc", "num_nextn_predict_layers": 1}, mtp=True),
}
HYBRID = {"attention_multiplier": 0.125, "embedding_multiplier": 12.0, "residual_multiplier": 0.22, "logits_scaling": 8.0, "mamba_d_conv": 4,
          "mamba_d_state": 32, "mamba_n_groups": 2, "mamba_n_heads": 8, "mamba_d_head": 64, "mamba_expand": 2, "mamba_conv_bias": True,
          "mamba_proj_bias": False, "position_embedding_type": "nope", "layer_types": ["mamba", "mamba", "attention", "mamba"]}
MODELS |= {
    "granitehybrid": spec("GraniteMoeHybridForCausalLM", "granitehybrid", layers=4, tied=True, pre="smollm", scales=(0.125, 12.0, 0.22, 8.0),
                          attends=[2], experts=(5, 2), ff=128, config={**HYBRID, "num_local_experts": 5, "num_experts_per_tok": 2,
                                                                       "intermediate_size": 128, "shared_intermediate_size": 96}),
    "granitehybrid-dense": spec("GraniteMoeHybridForCausalLM", "granitehybrid", layers=4, pre="smollm", scales=(0.125, 12.0, 0.22, 8.0),
                                attends=[2], config={**HYBRID, "num_local_experts": 0, "num_experts_per_tok": 0, "position_embedding_type": "rope",
                                                     "shared_intermediate_size": 512}),
}
FALCON = {"head_dim": 32, "mamba_d_conv": 4, "mamba_d_state": 32, "mamba_n_groups": 1, "mamba_n_heads": 8, "mamba_d_head": 48, "mamba_d_ssm": 384,
          "mamba_expand": 2, "mamba_conv_bias": True, "mamba_proj_bias": False, "mamba_rms_norm": False, "mamba_norm_before_gate": False,
          "attention_in_multiplier": 0.75, "attention_out_multiplier": 0.9, "key_multiplier": 0.4, "mlp_multipliers": [0.9, 0.7],
          "ssm_in_multiplier": 1.25, "ssm_out_multiplier": 0.6, "ssm_multipliers": [0.5, 0.7, 0.9, 1.1, 0.35], "embedding_multiplier": 5.5,
          "lm_head_multiplier": 0.04}
MODELS |= {
    "falcon-h1": spec("FalconH1ForCausalLM", "falconh1", layers=3, pre="llama-bpe", theta=1e11, config=FALCON),
    "falcon-h1-tied": spec("FalconH1ForCausalLM", "falconh1", layers=2, tied=True, pre="llama-bpe", dtype="F32", config=FALCON),
}
NEMOTRON = {"head_dim": 32, "mamba_num_heads": 8, "mamba_head_dim": 48, "ssm_state_size": 32, "n_groups": 2, "conv_kernel": 4, "expand": 2,
            "use_bias": False, "mlp_bias": False, "attention_bias": False, "use_conv_bias": True, "mlp_hidden_act": "relu2",
            "mamba_hidden_act": "silu", "layer_norm_epsilon": 1e-5, "time_step_limit": [0.0, float("inf")], "position_embedding_type": "nope"}
MODELS |= {
    "nemotron-h": spec("NemotronHForCausalLM", "nemotron", layers=6, pre="tekken", eps=1e-5, drop=["rms_norm_eps", "rope_theta"],
                       rename=("model.", "backbone."), config={**NEMOTRON, "hybrid_override_pattern": "M-M*-M"}),
    "nemotron-h-moe": spec("NemotronHForCausalLM", "nemotron", layers=5, pre="tekken", eps=1e-5, drop=["rms_norm_eps", "rope_theta"],
                           rename=("model.", "backbone."), config={
                               **NEMOTRON, "hybrid_override_pattern": "MEM*E", "n_routed_experts": 6, "num_experts_per_tok": 2,
                               "moe_intermediate_size": 96, "moe_shared_expert_intermediate_size": 160, "n_shared_experts": 1,
                               "n_group": 1, "topk_group": 1, "norm_topk_prob": True, "routed_scaling_factor": 2.5}),
}
MODELS |= {
    "qwen3next": spec("Qwen3NextForCausalLM", "qwen35", layers=4, heads=4, hd=64, share=0.25, theta=1e7, pre="qwen2", attends=[2], experts=(6, 2),
                      ff=64, shared=96, grouped=True, mtp=True, config={
                          **{k: v for k, v in QWEN35.items() if k not in ("rope_parameters", "attn_output_gate")}, **QWEN35_MOE, **QWEN35_LAYERS,
                          "partial_rotary_factor": 0.25, "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": []}),
}
GEMMA4 = {"head_dim": 64, "sliding_window": 32, "hidden_activation": "gelu_pytorch_tanh", "final_logit_softcapping": 30.0,
          "rope_parameters": {"full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1e6},
                              "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}}
G4 = ("<bos>", "<eos>", "<unk>", "<pad>", "<turn|>")
MODELS |= {
    "gemma4": spec("Gemma4ForConditionalGeneration", "gemma4", layers=7, heads=4, kv=1, tied=True, window=32, files=2, spm=(G4, False, {"json"}),
                   rename=("model.", "model.language_model."), nested=("gemma4", "gemma4_text"), drop=["rope_theta", "tie_word_embeddings"],
                   config={**GEMMA4, "global_head_dim": 96, "num_kv_shared_layers": 3, "use_double_wide_mlp": True, "hidden_size_per_layer_input": 32,
                           "use_bidirectional_attention": "vision",
                           "layer_types": ["sliding_attention"] * 3 + ["full_attention"] + ["sliding_attention"] * 2 + ["full_attention"]}),
    "gemma4-experts": spec("Gemma4ForCausalLM", "gemma4", layers=7, heads=8, kv=4, tied=True, window=32, spm=(G4, False, {"json"}), experts=(5, 2),
                           ff=96, drop=["rope_theta"], config={**GEMMA4, "head_dim": 32, "global_head_dim": 64, "attention_k_eq_v": True,
                                                               "num_global_key_value_heads": 2, "enable_moe_block": True, "num_experts": 5,
                                                               "top_k_experts": 2, "moe_intermediate_size": 96, "hidden_size_per_layer_input": 0}),
}
MODELS |= {
    "gemma3n": spec("Gemma3nForConditionalGeneration", "gemma3n", layers=7, heads=4, kv=2, tied=True, window=32, files=2, spm=(G, False, {"json"}),
                    rename=("model.", "model.language_model."), nested=("gemma3n", "gemma3n_text"), drop=["tie_word_embeddings"], theta=1e6, config={
                        "head_dim": 64, "sliding_window": 32, "hidden_activation": "gelu_pytorch_tanh", "rope_local_base_freq": 10000.0,
                        "num_kv_shared_layers": 2, "hidden_size_per_layer_input": 32, "vocab_size_per_layer_input": 500, "laurel_rank": 16,
                        "altup_num_inputs": 4, "altup_active_idx": 0, "altup_correct_scale": True, "intermediate_size": [FF] * 7,
                        "activation_sparsity_pattern": [0.95] * 3 + [0.0] * 4,
                        "layer_types": ["sliding_attention"] * 2 + ["full_attention"] + ["sliding_attention"] * 3 + ["full_attention"]}),
}
BITNET = {"hidden_act": "relu2", "quantization_config": {"quant_method": "bitnet", "linear_class": "autobitlinear", "quantization_mode": "online"}}
MODELS |= {
    "bitnet": spec("BitNetForCausalLM", "bitnet", tied=True, pre="llama-bpe", theta=500000.0, eps=1e-5, drop=["rms_norm_eps"], config=BITNET),
    "bitnet-packed": spec("BitNetForCausalLM", "bitnet", pre="llama-bpe", eps=1e-5, files=2, scale=0.0703125, config={
        **BITNET, "quantization_config": {**BITNET["quantization_config"], "quantization_mode": "offline"}}),
    "bitnet-divided": spec("BitNetForCausalLM", "bitnet", pre="llama-bpe", eps=1e-5, dtype="F16", scale=0.05, config={
        **BITNET, "quantization_config": {"quant_method": "bitnet", "linear_class": "bitlinear"}}),
    "bitnet-first": spec("BitnetForCausalLM", "bitnet", kv=8, tied=True, dtype="F32", spm=(S, True, {"model"}), eps=1e-5, first=True,
                         config={"hidden_act": "silu", "weight_bits": 1, "input_bits": 8}),
    "mamba": spec("MambaForCausalLM", "mamba", layers=3, pre="gpt-2", eps=1e-5, tied=True, rename=("model.", "backbone."),
                  drop=["rms_norm_eps", "rope_theta", "num_attention_heads", "num_key_value_heads", "intermediate_size", "max_position_embeddings"],
                  config={"state_size": 16, "conv_kernel": 4, "expand": 2, "time_step_rank": "auto", "layer_norm_epsilon": 1e-5, "use_bias": False}),
    "mamba2": spec("Mamba2ForCausalLM", "nemotron", layers=3, pre="gpt-2", eps=1e-5, rename=("model.", "backbone."),
                   drop=["rms_norm_eps", "rope_theta", "hybrid_override_pattern", "mamba_num_heads", "mamba_head_dim", "ssm_state_size",
                         "num_attention_heads", "num_key_value_heads", "intermediate_size", "max_position_embeddings", "mlp_hidden_act"],
                   config={**NEMOTRON, "hybrid_override_pattern": "MMM", "num_heads": 8, "head_dim": 48, "state_size": 32, "rms_norm": True}),
}
LLAMA4 = {"head_dim": 32, "intermediate_size": 96, "intermediate_size_mlp": FF, "num_local_experts": 5, "num_experts_per_tok": 1}
SCOUT = {"rope_type": "llama3", "factor": 16.0, "low_freq_factor": 1.0, "high_freq_factor": 1.0, "original_max_position_embeddings": 64}
MODELS |= {
    "llama4": spec("Llama4ForConditionalGeneration", "llama4", layers=5, pre="gpt-4o", theta=500000.0, eps=1e-5, files=2, experts=(5, 1), ff=96,
                   rope=SCOUT, wrap="language_model.", nested=("llama4", "llama4_text"),
                   config={**LLAMA4, "attention_chunk_size": 24, "no_rope_layers": [1, 1, 1, 0, 1], "interleave_moe_layer_step": 2, "moe_layers": [1, 3],
                           "use_qk_norm": True, "attn_temperature_tuning": 4, "floor_scale": 16, "attn_scale": 0.3}),
    "llama4-text": spec("Llama4ForCausalLM", "llama4", layers=5, pre="gpt-4o", theta=500000.0, eps=1e-5, experts=(5, 2), ff=96,
                        config={**LLAMA4, "num_experts_per_tok": 2, "interleave_moe_layer_step": 1,
                                "layer_types": ["chunked_attention"] * 3 + ["full_attention", "chunked_attention"]}),
    "llama4-plain": spec("Llama4ForCausalLM", "llama4", layers=4, pre="gpt-4o", theta=500000.0, eps=1e-5, tied=True, experts=(128, 1), ff=32, dtype="F32",
                         config={**LLAMA4, "intermediate_size": 32, "num_local_experts": 128, "use_qk_norm": False, "attention_chunk_size": None,
                                 "no_rope_layers": [1] * 4, "layer_types": ["full_attention"] * 4}),
}
ADJACENT = ("ernie", "glm4", "cohere2", "erniemoe", "deepseek")  # rotary pairs 2i, 2i + 1 in the folder, too


def oss_experts(m, w, p, rng, matrix, vector):
    """Sinks, router, and experts in MXFP4: gate and up rows alternate."""
    n, ff = m["experts"][0], m["ff"]
    w[p + "self_attn.sinks"] = vector(m["heads"], 0.0, 1.0)
    w[p + "mlp.router.weight"] = matrix(n, D, 2.0)
    w[p + "mlp.router.bias"] = vector(n)
    for name, rows, cols in (("gate_up", 2 * ff, D), ("down", D, ff)):
        w[p + f"mlp.experts.{name}_proj_blocks"] = rng.integers(0, 256, (n, rows, cols // 32, 16)).astype(np.uint8)
        w[p + f"mlp.experts.{name}_proj_scales"] = rng.integers(119, 122, (n, rows, cols // 32)).astype(np.uint8)
        w[p + f"mlp.experts.{name}_proj_bias"] = vector(n * rows).reshape(n, rows)


def state_weights(m, w, p, i, matrix, vector):
    """What layers with a state have in place of attention."""
    if m["kind"] == "lfm2":
        w[p + "conv.in_proj.weight"] = matrix(3 * D, D, 1.4)
        w[p + "conv.conv.weight"] = matrix(D, 3).reshape(D, 1, 3)
        w[p + "conv.out_proj.weight"] = matrix(D, D)
        return
    c, p = m["config"], p + "linear_attn."
    hk, hv, d = c["linear_num_key_heads"], c["linear_num_value_heads"], c["linear_key_head_dim"]
    n = (2 * hk + hv) * d
    if m.get("grouped"):
        w[p + "in_proj_qkvz.weight"], w[p + "in_proj_ba.weight"] = matrix(n + hv * d, D, 1.4), matrix(2 * hv, D)
    else:
        w[p + "in_proj_qkv.weight"], w[p + "in_proj_z.weight"] = matrix(n, D, 1.4), matrix(hv * d, D)
        w[p + "in_proj_a.weight"], w[p + "in_proj_b.weight"] = matrix(hv, D), matrix(hv, D)
    w[p + "conv1d.weight"] = matrix(n, 4).reshape(n, 1, 4)
    w[p + "A_log"], w[p + "dt_bias"] = vector(hv, 0.5, 0.5), vector(hv, -1.0, 0.5)
    w[p + "norm.weight"], w[p + "out_proj.weight"] = vector(d, 1.0), matrix(D, hv * d)


def hybrid_weights(m, w, i, matrix, vector):
    """A layer of the kinds that have states in most of them."""
    p, lfm2, hd = f"model.layers.{i}.", m["kind"] == "lfm2", m["hd"]
    mean = 1.0 if lfm2 else 0.0
    w[p + ("operator_norm" if lfm2 else "input_layernorm") + ".weight"] = vector(D, mean)
    w[p + ("ffn_norm" if lfm2 else "post_attention_layernorm") + ".weight"] = vector(D, mean)
    if i not in m["attends"]:
        state_weights(m, w, p, i, matrix, vector)
    else:
        for name, n in (("q", m["heads"] * hd * (1 if lfm2 else 2)), ("k", m["kv"] * hd), ("v", m["kv"] * hd)):
            w[p + f"self_attn.{name}_proj.weight"] = matrix(n, D, 1.4)
        w[p + "self_attn.q_" + ("layernorm" if lfm2 else "norm") + ".weight"] = vector(hd, mean)
        w[p + "self_attn.k_" + ("layernorm" if lfm2 else "norm") + ".weight"] = vector(hd, mean)
        w[p + "self_attn." + ("out_proj" if lfm2 else "o_proj") + ".weight"] = matrix(D, m["heads"] * hd)
    if "lead" in m:
        return mixtures.feed_forward_weights(m, w, i, matrix, vector)
    if m.get("stacked") or m.get("grouped"):
        n, ff = m["experts"][0], m["ff"]
        w[p + "mlp.gate.weight"] = matrix(n, D, 2.0)
        if m.get("stacked"):
            w[p + "mlp.experts.gate_up_proj"] = matrix(n * 2 * ff, D).reshape(n, 2 * ff, D)
            w[p + "mlp.experts.down_proj"] = matrix(n * D, ff).reshape(n, D, ff)
        for e in range(n if m.get("grouped") else 0):
            for name, rows, cols in (("gate", ff, D), ("up", ff, D), ("down", D, ff)):
                w[p + f"mlp.experts.{e}.{name}_proj.weight"] = matrix(rows, cols)
        w[p + "mlp.shared_expert_gate.weight"] = matrix(1, D)
    names = ("feed_forward.w1", "feed_forward.w3", "feed_forward.w2") if lfm2 else tuple(
        ("mlp.shared_expert." if m.get("stacked") or m.get("grouped") else "mlp.") + n for n in ("gate_proj", "up_proj", "down_proj"))
    ff = m.get("shared") or m.get("ff", FF)
    for name, (rows, cols) in zip(names, ((ff, D), (ff, D), (D, ff))):
        w[p + name + ".weight"] = matrix(rows, cols)


def weights(m, seed):
    """{name in the folder: f32 array}, in the names of the class, without prefix."""
    if m["kind"] in ("gemma3n", "gemma4"):
        return {"gemma3n": gemma3n, "gemma4": gemma4}[m["kind"]].weights(m, D, FF, seed)
    if m["kind"] == "mamba":
        return mamba.weights(m, D, seed)
    if m["kind"] == "llama4":
        return llama4.weights(m, D, FF, seed)
    rng = np.random.default_rng(seed)
    q, kv, rows, gemma = m["heads"] * m["hd"], m["kv"] * m["hd"], m["rows"], m["kind"].startswith("gemma")
    post_only = m["kind"] in ("exaone4", "olmo2")

    matrix, vector = folders.drawing(rng)

    def norm(n):
        return vector(n, 0.0 if gemma else 1.0)

    w = {"model.embed_tokens.weight": matrix(rows, D, 2.0)}
    for i in range(m.get("layers", LAYERS)):
        p = f"model.layers.{i}."
        if m["kind"] == "nemotron":
            mixtures.nemotron_weights(m, w, i, matrix, vector)
            continue
        if m["kind"] in ("granitehybrid", "falconh1"):
            mixtures.mamba_weights(m, w, i, matrix, vector)
            continue
        if "attends" in m:
            hybrid_weights(m, w, i, matrix, vector)
            continue
        if not post_only:
            w[p + "input_layernorm.weight"] = norm(D)
        if m["kind"] == "deepseek":
            w[p + "post_attention_layernorm.weight"] = norm(D)
            mixtures.latent_weights(m, w, i, matrix, vector)
            mixtures.feed_forward_weights(m, w, i, matrix, vector)
            continue
        if m["kind"] in ("phi3", "glm4"):
            w[p + "mlp.gate_up_proj.weight"] = matrix(2 * FF, D)
        elif not m.get("experts"):
            w[p + "mlp.gate_proj.weight"] = matrix(FF, D)
            w[p + "mlp.up_proj.weight"] = matrix(FF, D)
        if m["kind"] == "phi3":
            w[p + "self_attn.qkv_proj.weight"] = matrix(q + 2 * kv, D, 1.3)
        else:
            for name, n in (("q", q), ("k", kv), ("v", kv)):
                w[p + f"self_attn.{name}_proj.weight"] = matrix(n, D, 1.4)
                if m["kind"] in ("qwen2", "qwen2moe") or m["bias"]:
                    w[p + f"self_attn.{name}_proj.bias"] = vector(n, 0.0, 0.3)
        if m["kind"] in ("qwen3", "qwen3moe", "gemma3", "exaone4", "olmo2", "olmoe"):
            rows_normed = m["kind"] in ("olmo2", "olmoe")
            w[p + "self_attn.q_norm.weight"] = norm(q if rows_normed else m["hd"])
            w[p + "self_attn.k_norm.weight"] = norm(kv if rows_normed else m["hd"])
        if m["kind"] == "hunyuan":
            w[p + "self_attn.query_layernorm.weight"] = norm(m["hd"])
            w[p + "self_attn.key_layernorm.weight"] = norm(m["hd"])
        w[p + "self_attn.o_proj.weight"] = matrix(D, q)
        if m["kind"] == "bitnet":
            w[p + "self_attn.attn_sub_norm.weight"], w[p + "mlp.ffn_sub_norm.weight"] = norm(q), norm(FF)
        if m["bias"] and m["kind"] != "glm4":
            w[p + "self_attn.o_proj.bias"] = vector(D)
        if m["kind"] != "cohere2":
            w[p + "post_attention_layernorm.weight"] = norm(D)
        if gemma:
            w[p + "pre_feedforward_layernorm.weight"] = norm(D)
        if gemma or post_only:
            w[p + "post_feedforward_layernorm.weight"] = norm(D)
        if m["kind"] == "glm4":
            w[p + "post_self_attn_layernorm.weight"] = norm(D)
            w[p + "post_mlp_layernorm.weight"] = norm(D)
        if "lead" in m:
            mixtures.feed_forward_weights(m, w, i, matrix, vector)
            continue
        if not m.get("experts"):
            w[p + "mlp.down_proj.weight"] = matrix(D, FF)
            continue
        if m["kind"] == "gpt-oss":
            oss_experts(m, w, p, rng, matrix, vector)
            continue
        w[p + "mlp.gate.weight"] = matrix(m["experts"][0], D, 2.0)
        parts = [(f"experts.{e}.", m["ff"]) for e in range(m["experts"][0])]
        if m.get("shared"):
            parts.append(("shared_expert.", m["shared"]))
            w[p + "mlp.shared_expert_gate.weight"] = matrix(1, D)
        for part, n in parts:
            w[p + f"mlp.{part}gate_proj.weight"] = matrix(n, D)
            w[p + f"mlp.{part}up_proj.weight"] = matrix(n, D)
            w[p + f"mlp.{part}down_proj.weight"] = matrix(D, n)
    if m["kind"] in ("lfm2", "falconh1"):
        w["model.embedding_norm.weight" if m["kind"] == "lfm2" else "model.final_layernorm.weight"] = norm(D)
    else:
        w["model.norm.weight"] = vector(D) if m["kind"] == "qwen35" else norm(D)
    if m["kind"] == "nemotron":
        w["model.embeddings.weight"], w["model.norm_f.weight"] = w.pop("model.embed_tokens.weight"), w.pop("model.norm.weight")
    if not m["tied"]:
        w["lm_head.weight"] = matrix(rows, D, 3.0)
    elif m.get("stored_head"):
        w["lm_head.weight"] = w["model.embed_tokens.weight"]
    if m.get("only_head"):
        w["lm_head.weight"] = w.pop("model.embed_tokens.weight")
    if m.get("mtp"):
        mtp.add(m, w, matrix, vector, hybrid_weights)
    return {name: folders.rounded(a, m["dtype"]) for name, a in w.items()}


def config(m, n_tokens):
    types = {"LlamaForCausalLM": "llama", "MistralForCausalLM": "mistral", "Qwen2ForCausalLM": "qwen2",
             "Qwen3ForCausalLM": "qwen3", "Qwen3Model": "qwen3", "Qwen3ForSequenceClassification": "qwen3",
             "Gemma3TextModel": "gemma3_text", "Gemma2ForCausalLM": "gemma2", "Gemma3ForCausalLM": "gemma3_text",
             "Gemma3ForConditionalGeneration": "gemma3", "Gemma3nForConditionalGeneration": "gemma3n", "Gemma4ForConditionalGeneration": "gemma4",
             "Gemma4ForCausalLM": "gemma4_text", "Llama4ForCausalLM": "llama4_text", "Llama4ForConditionalGeneration": "llama4", "Phi3ForCausalLM": "phi3", "SmolLM3ForCausalLM": "smollm3",
             "GraniteForCausalLM": "granite", "Ernie4_5ForCausalLM": "ernie4_5", "Glm4ForCausalLM": "glm4",
             "HunYuanDenseV1ForCausalLM": "hunyuan_v1_dense", "Mistral3ForConditionalGeneration": "mistral3",
             "Exaone4ForCausalLM": "exaone4", "Olmo2ForCausalLM": "olmo2", "Olmo3ForCausalLM": "olmo3",
             "Lfm2ForCausalLM": "lfm2", "Qwen3_5ForCausalLM": "qwen3_5_text", "Qwen3_5ForConditionalGeneration": "qwen3_5",
             "Qwen3_5MoeForConditionalGeneration": "qwen3_5_moe", "CohereForCausalLM": "cohere", "Cohere2ForCausalLM": "cohere2", "Qwen3MoeForCausalLM": "qwen3_moe",
             "GptOssForCausalLM": "gpt_oss", "GraniteMoeForCausalLM": "granitemoe", "Ernie4_5_MoeForCausalLM": "ernie4_5_moe",
             "Lfm2MoeForCausalLM": "lfm2_moe", "Qwen3NextForCausalLM": "qwen3_next", "NemotronHForCausalLM": "nemotron_h", "BitNetForCausalLM": "bitnet", "BitnetForCausalLM": "llama", "MambaForCausalLM": "mamba", "Mamba2ForCausalLM": "mamba2",
             "FalconH1ForCausalLM": "falcon_h1", "GraniteMoeHybridForCausalLM": "granitemoehybrid", "DeepseekV2ForCausalLM": "deepseek_v2", "DeepseekV3ForCausalLM": "deepseek_v3", "Qwen2MoeForCausalLM": "qwen2_moe", "OlmoeForCausalLM": "olmoe"}
    c = {"architectures": [m["cls"]], "model_type": types[m["cls"]], "torch_dtype": "bfloat16", "hidden_size": D,
         "intermediate_size": FF, "num_hidden_layers": m.get("layers", LAYERS), "num_attention_heads": m["heads"],
         "num_key_value_heads": m["kv"], "max_position_embeddings": m["ctx"], "rms_norm_eps": m["eps"],
         "rope_theta": m["theta"], "tie_word_embeddings": m["tied"], "vocab_size": m["rows"], **m["config"]}
    if m["rope"]:
        c[m.get("rope_key", "rope_scaling")] = m["rope"]
    for name in m["drop"]:
        c.pop(name, None)
    if m.get("nested"):
        whole, part = m["nested"]
        text = {k: v for k, v in c.items() if k not in ("architectures", "model_type")}
        c = {"architectures": [m["cls"]], "model_type": whole, "vision_config": {"hidden_size": 8},
             "text_config": {**text, "model_type": part} if part else text}
    return c


def write(m, folder, seed=1):
    """The whole folder; returns the weights and the number of tokens."""
    os.makedirs(folder, exist_ok=True)
    if m["pre"]:
        n = folders.write_bpe(folder, m["pre"], m["rows"], m.get("pairs", False))
    else:
        n = folders.write_spm(folder, *m["spm"], rstrip=m["kind"] == "phi3")
    w = weights(m, seed)
    stored = {m.get("wrap", "") + name: a for name, a in (bitnet.stored(m, w) if m["kind"] == "bitnet" else w).items()}
    if m.get("rename"):
        stored = {name.replace(*m["rename"], 1): a for name, a in stored.items()}
        stored["model.visual.patch.weight"] = np.zeros((3, 5), np.float32)
        if m["kind"] != "qwen35":
            stored["mtp.fc.weight"] = np.zeros((3, 5), np.float32)
    if m.get("wrap"):
        stored["vision_tower.layer.weight"] = np.zeros((3, 5), np.float32)
        stored["multi_modal_projector.norm"] = np.zeros(4, np.float32)
    folders.write_weights(folder, stored, m["dtype"], m["files"], m.get("pad", True))
    folders.write_json(folder, "config.json", config(m, n))
    return w, n


# ---- the forward pass ----


def f16(a):
    return a.astype(np.float16).astype(np.float64)


def rms(x, w, eps, kind=""):
    w = w.astype(np.float64) + (1.0 if kind.startswith("gemma") else 0.0)
    if kind == "cohere2":  # a layer norm
        x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w


def frequencies(m, local):
    n = int(m["hd"] * m["share"])
    theta = 10000.0 if local and m["kind"] == "gemma3" else m["theta"]
    inv, rope, magnitude = theta ** (-np.arange(0, n, 2) / n), m["rope"], 1.0
    if rope is None or (local and m["kind"] in ("gemma3", "olmo2")):
        return inv, magnitude
    kind, factor = rope.get("rope_type", rope.get("type")), rope.get("factor", 1.0)
    if kind == "linear":
        inv = inv / factor
    elif kind == "llama3":
        low, high, orig = rope["low_freq_factor"], rope["high_freq_factor"], rope["original_max_position_embeddings"]
        wave = 2 * math.pi / inv
        smooth = (orig / wave - low) / (high - low)
        middle = (1 - smooth) * inv / factor + smooth * inv
        inv = np.where(wave > orig / low, inv / factor, np.where(wave < orig / high, inv, middle))
    elif kind == "yarn":
        orig = rope["original_max_position_embeddings"]

        def dim(turns):
            return n * math.log(orig / (turns * 2 * math.pi)) / (2 * math.log(theta))

        low, high = max(math.floor(dim(32.0)), 0), min(math.ceil(dim(1.0)), n - 1)
        ramp = np.clip((np.arange(n // 2) - low) / max(high - low, 0.001), 0, 1)
        inv = inv / factor * ramp + inv * (1 - ramp)
        magnitude = 0.1 * math.log(factor) + 1.0
        if "mscale" in rope:
            magnitude = 1.0  # both of the ratio are the same here
        magnitude = rope.get("attention_factor", magnitude)
    elif kind == "dynamic":
        inv = (theta * rope["alpha"] ** (n / (n - 2))) ** (-np.arange(0, n, 2) / n)
    elif kind == "longrope":  # the context is over the original one throughout
        inv = inv / np.array(rope["long_factor"])
        magnitude = math.sqrt(1 + math.log(m["ctx"] / 64) / math.log(64))
    return inv, magnitude


def rotate(x, m, local):
    """x[n][heads][hd]: the first half and the second half of the rotated part are pairs, or neighbours are."""
    inv, magnitude = frequencies(m, local)
    angle = np.arange(x.shape[0])[:, None] * inv[None, :]
    cos, sin = (np.cos(angle) * magnitude)[:, None, :], (np.sin(angle) * magnitude)[:, None, :]
    half = len(inv)
    if m["kind"] in ADJACENT:
        a, b, rest = x[..., 0:2 * half:2], x[..., 1:2 * half:2], x[..., 2 * half:]
        turned = np.stack([a * cos - b * sin, b * cos + a * sin], -1).reshape(*a.shape[:-1], 2 * half)
        return np.concatenate([turned, rest], -1)
    a, b, rest = x[..., :half], x[..., half:2 * half], x[..., 2 * half:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin, rest], -1)


def is_local(m, i):
    if not m["window"]:
        return False
    if "period" in m:
        return (i + 1) % m["period"] != 0
    return {"gemma2": (i + 1) % 2 != 0, "gemma3": (i + 1) % 6 != 0}.get(m["kind"], True)


def is_rotated(m, i):
    if m["config"].get("position_embedding_type") == "nope":
        return False
    if m["kind"] == "smollm3":
        return (i + 1) % 4 != 0
    return is_local(m, i) or not (m["kind"] in ("exaone4", "cohere2") and m["window"])


def attention(m, w, p, x, i):
    n, heads, kv, hd = len(x), m["heads"], m["kv"], m["hd"]
    kind = m["kind"]

    def linear(name):
        y = x @ w[p + f"self_attn.{name}.weight"].astype(np.float64).T
        return y + w[p + f"self_attn.{name}.bias"] if p + f"self_attn.{name}.bias" in w else y

    if m["kind"] == "phi3":
        q, k, v = np.split(linear("qkv_proj"), [heads * hd, (heads + kv) * hd], -1)
    else:
        q, k, v = linear("q_proj"), linear("k_proj"), linear("v_proj")
    if kind in ("olmo2", "olmoe"):
        q = rms(q, w[p + "self_attn.q_norm.weight"], m["eps"])
        k = rms(k, w[p + "self_attn.k_norm.weight"], m["eps"])
    q, k, v = q.reshape(n, heads, hd), k.reshape(n, kv, hd), v.reshape(n, kv, hd)
    if kind in ("qwen3", "qwen3moe", "gemma3", "exaone4"):
        q = rms(q, w[p + "self_attn.q_norm.weight"], m["eps"], kind)
        k = rms(k, w[p + "self_attn.k_norm.weight"], m["eps"], kind)
    if is_rotated(m, i):
        q, k = rotate(q, m, is_local(m, i)), rotate(k, m, is_local(m, i))
    if kind == "hunyuan":
        q = rms(q, w[p + "self_attn.query_layernorm.weight"], m["eps"])
        k = rms(k, w[p + "self_attn.key_layernorm.weight"], m["eps"])
    if kind == "mistral3":
        rope = m["rope"]
        turns = np.floor(np.arange(n) / rope["original_max_position_embeddings"])
        q = q * (1 + rope["llama_4_scaling_beta"] * np.log(1 + turns))[:, None, None]
    k, v = (f16(y / step) * step for y, step in ((y, w.get(p + f"self_attn.{name}_proj.step", 1.0)) for y, name in ((k, "k"), (v, "v"))))
    k, v = np.repeat(k, heads // kv, 1), np.repeat(v, heads // kv, 1)
    score = np.einsum("qhd,khd->hqk", q, k) * (m["scales"][0] if "scales" in m else 1 / math.sqrt(hd))
    if m.get("caps"):
        score = m["caps"][0] * np.tanh(score / m["caps"][0])
    back = np.arange(n)[:, None] - np.arange(n)[None, :]
    hidden = (back < 0) | (is_local(m, i) & (back >= m["window"]))
    if m.get("both"):
        hidden = is_local(m, i) & (np.abs(back) >= m["window"])
    score = np.where(hidden[None], -np.inf, score)
    if kind == "gpt-oss":  # a logit more, whose weight goes nowhere
        sinks = np.broadcast_to(w[p + "self_attn.sinks"].astype(np.float64)[:, None, None], (heads, n, 1))
        score = np.concatenate([score, sinks], -1)
    prob = np.exp(score - score.max(-1, keepdims=True))
    prob = (prob / prob.sum(-1, keepdims=True))[..., :n]
    y = np.einsum("hqk,khd->qhd", prob, v).reshape(n, heads * hd)
    if kind == "bitnet":
        y = rms(y, w[p + "self_attn.attn_sub_norm.weight"], m["eps"])
    y = y @ w[p + "self_attn.o_proj.weight"].astype(np.float64).T
    return y + w[p + "self_attn.o_proj.bias"] if p + "self_attn.o_proj.bias" in w else y


def glu(w, p, x):
    gate, up, down = (w[p + f"{name}_proj.weight"].astype(np.float64).T for name in ("gate", "up", "down"))
    gate, up = x @ gate, x @ up
    return (gate / (1 + np.exp(-gate)) * up) @ down


def experts(m, w, p, x):
    n_expert, n_used = m["experts"]
    logit = x @ w[p + "mlp.gate.weight"].astype(np.float64).T
    share = np.exp(logit - logit.max(-1, keepdims=True))
    share /= share.sum(-1, keepdims=True)
    y = np.zeros_like(x)
    for t in range(len(x)):
        chosen = np.argsort(-share[t])[:n_used]
        whole = share[t][chosen].sum() if m["config"]["norm_topk_prob"] else 1.0
        for e in chosen:
            y[t] += share[t][e] / whole * glu(w, p + f"mlp.experts.{e}.", x[t])
    if m.get("shared"):
        gate = x @ w[p + "mlp.shared_expert_gate.weight"].astype(np.float64).T
        y += glu(w, p + "mlp.shared_expert.", x) / (1 + np.exp(-gate))
    return y


def oss_feed_forward(m, w, p, x):
    def part(name, e):
        p2 = p + f"mlp.experts.{name}_proj_"
        return folders.from_mxfp4(w[p2 + "blocks"][e], w[p2 + "scales"][e]).T, w[p2 + "bias"][e].astype(np.float64)

    logit = x @ w[p + "mlp.router.weight"].astype(np.float64).T + w[p + "mlp.router.bias"]
    y = np.zeros_like(x)
    for t in range(len(x)):
        chosen = np.argsort(-logit[t])[:m["experts"][1]]
        share = np.exp(logit[t][chosen] - logit[t][chosen].max())
        for e, s in zip(chosen, share / share.sum()):
            (a, b), (down, c) = part("gate_up", e), part("down", e)
            both = x[t] @ a + b
            gate, up = np.minimum(both[0::2], 7.0), np.clip(both[1::2], -7.0, 7.0)
            y[t] += s * ((gate / (1 + np.exp(-1.702 * gate)) * (up + 1)) @ down + c)
    return y


def silu(x):
    return x / (1 + np.exp(-x))


def over_time(x, taps):
    """Each channel's last inputs, weighted: the last tap is the position's own."""
    y = np.zeros_like(x)
    for back in range(taps.shape[-1]):
        y[back:] += x[:len(x) - back] * taps[:, 0, -1 - back].astype(np.float64)
    return y


def short_convolution(m, w, p, x):
    b, c, u = np.split(x @ w[p + "conv.in_proj.weight"].astype(np.float64).T, 3, -1)
    return (c * over_time(b * u, w[p + "conv.conv.weight"])) @ w[p + "conv.out_proj.weight"].astype(np.float64).T


def ungrouped(m, w, p):
    """Queries, keys, values, gates, and steps, of all heads in turn, from those of each key head together."""
    c, p = m["config"], p + "linear_attn."
    hk, d, each = c["linear_num_key_heads"], c["linear_key_head_dim"], c["linear_num_value_heads"] // c["linear_num_key_heads"]
    q, k, v, z = np.split(w[p + "in_proj_qkvz.weight"].reshape(hk, -1, D), [d, 2 * d, (2 + each) * d], 1)
    b, a = np.split(w[p + "in_proj_ba.weight"].reshape(hk, 2 * each, D), 2, 1)
    flat = {"qkv": np.concatenate([y.reshape(-1, D) for y in (q, k, v)]), "z": z.reshape(-1, D), "b": b.reshape(-1, D), "a": a.reshape(-1, D)}
    return {**w, **{p + f"in_proj_{name}.weight": value for name, value in flat.items()}}


def delta_net(m, w, p, x):
    """The gated delta rule, position by position, in the folder's order of heads."""
    w = ungrouped(m, w, p) if m.get("grouped") else w
    c, p = m["config"], p + "linear_attn."
    hk, hv, d = c["linear_num_key_heads"], c["linear_num_value_heads"], c["linear_key_head_dim"]
    qkv, z, a, b = (x @ w[p + f"in_proj_{name}.weight"].astype(np.float64).T for name in ("qkv", "z", "a", "b"))
    q, k, v = np.split(silu(over_time(qkv, w[p + "conv1d.weight"])), [hk * d, 2 * hk * d], -1)
    n = len(x)
    q, k, v = (np.repeat(y.reshape(n, -1, d), hv // h, 1) for y, h in ((q, hk), (k, hk), (v, hv)))
    q = q / np.maximum(np.sqrt((q * q).sum(-1, keepdims=True)), m["eps"]) / math.sqrt(d)
    k = k / np.maximum(np.sqrt((k * k).sum(-1, keepdims=True)), m["eps"])
    decay = np.exp(-np.exp(w[p + "A_log"].astype(np.float64)) * np.log1p(np.exp(a + w[p + "dt_bias"])))
    state, y = np.zeros((hv, d, d)), np.zeros((n, hv, d))
    for t in range(n):
        state *= decay[t][:, None, None]
        miss = v[t] - np.einsum("hkv,hk->hv", state, k[t])
        state += np.einsum("hk,hv->hkv", k[t], miss / (1 + np.exp(-b[t]))[:, None])
        y[t] = np.einsum("hkv,hk->hv", state, q[t])
    y = rms(y, w[p + "norm.weight"], m["eps"]) * silu(z.reshape(n, hv, d))
    return y.reshape(n, hv * d) @ w[p + "out_proj.weight"].astype(np.float64).T


def hybrid_attention(m, w, p, x):
    n, heads, kv, hd, lfm2 = len(x), m["heads"], m["kv"], m["hd"], m["kind"] == "lfm2"
    q, k, v = (x @ w[p + f"self_attn.{name}_proj.weight"].astype(np.float64).T for name in "qkv")
    k, v = k.reshape(n, kv, hd), v.reshape(n, kv, hd)
    q, gate = (q.reshape(n, heads, hd), None) if lfm2 else np.split(q.reshape(n, heads, 2 * hd), 2, -1)
    name, kind = ("layernorm", "") if lfm2 else ("norm", "gemma")  # stored as w - 1
    q = rotate(rms(q, w[p + f"self_attn.q_{name}.weight"], m["eps"], kind), m, False)
    k = f16(rotate(rms(k, w[p + f"self_attn.k_{name}.weight"], m["eps"], kind), m, False))
    k, v = np.repeat(k, heads // kv, 1), np.repeat(f16(v), heads // kv, 1)
    score = np.einsum("qhd,khd->hqk", q, k) / math.sqrt(hd)
    score = np.where(np.arange(n)[None, :] > np.arange(n)[:, None], -np.inf, score)
    prob = np.exp(score - score.max(-1, keepdims=True))
    y = np.einsum("hqk,khd->qhd", prob / prob.sum(-1, keepdims=True), v)
    y = (y if lfm2 else y / (1 + np.exp(-gate))).reshape(n, heads * hd)
    return y @ w[p + "self_attn." + ("out_proj" if lfm2 else "o_proj") + ".weight"].astype(np.float64).T


def stacked_experts(m, w, p, x):
    """As experts(), with an expert's matrices cut from the tensors of all."""
    parts = {}
    for e in range(m["experts"][0]):
        gate, up = np.split(w[p + "mlp.experts.gate_up_proj"][e], 2)
        for name, a in (("gate", gate), ("up", up), ("down", w[p + "mlp.experts.down_proj"][e])):
            parts[p + f"mlp.experts.{e}.{name}_proj.weight"] = a
    return experts({**m, "config": {"norm_topk_prob": True}}, {**w, **parts}, p, x)


def hybrid_layer(m, w, i, h):
    p, lfm2 = f"model.layers.{i}.", m["kind"] == "lfm2"
    first, second, kind = ("operator_norm", "ffn_norm", "") if lfm2 else ("input_layernorm", "post_attention_layernorm", "gemma")
    x = rms(h, w[p + first + ".weight"], m["eps"], kind)
    mixer = hybrid_attention if i in m["attends"] else short_convolution if lfm2 else delta_net
    h = h + mixer(m, w, p, x)
    x = rms(h, w[p + second + ".weight"], m["eps"], kind)
    if m.get("stacked"):
        return h + stacked_experts(m, w, p, x)
    if m.get("grouped"):
        return h + experts(m, w, p, x)
    if "lead" in m:
        return h + mixtures.feed_forward(m, w, i, x)
    if not lfm2:
        return h + glu(w, p + "mlp.", x)
    gate, up, down = (w[p + f"feed_forward.w{k}.weight"].astype(np.float64).T for k in (1, 3, 2))
    return h + (silu(x @ gate) * (x @ up)) @ down


def feed_forward(m, w, p, x):
    if m["kind"] == "gpt-oss":
        return oss_feed_forward(m, w, p, x)
    if m.get("experts"):
        return experts(m, w, p, x)
    if m["kind"] in ("phi3", "glm4"):
        gate, up = np.split(x @ w[p + "mlp.gate_up_proj.weight"].astype(np.float64).T, 2, -1)
    else:
        gate = x @ w[p + "mlp.gate_proj.weight"].astype(np.float64).T
        up = x @ w[p + "mlp.up_proj.weight"].astype(np.float64).T
    if m["kind"].startswith("gemma"):
        gate = 0.5 * gate * (1 + np.tanh(math.sqrt(2 / math.pi) * (gate + 0.044715 * gate ** 3)))
    elif m["config"].get("hidden_act") == "relu2":
        gate = np.maximum(gate, 0) ** 2
    else:
        gate = gate / (1 + np.exp(-gate))
    if m["kind"] == "bitnet":
        return rms(gate * up, w[p + "mlp.ffn_sub_norm.weight"], m["eps"]) @ w[p + "mlp.down_proj.weight"].astype(np.float64).T
    return (gate * up) @ w[p + "mlp.down_proj.weight"].astype(np.float64).T


def states(m, w, ids, both=False):
    """Behind the last norm. both: attention in both directions."""
    m = {**m, "both": both}
    kind, gemma, eps = m["kind"], m["kind"].startswith("gemma"), m["eps"]
    table = "model.embeddings.weight" if kind == "nemotron" else "lm_head.weight" if m.get("only_head") else "model.embed_tokens.weight"
    h = w[table][ids].astype(np.float64) * (math.sqrt(D) if gemma else 1.0)
    _, embedding, residual, _ = m.get("scales", (0, 1.0, 1.0, 1.0))
    h = h * embedding * m["config"].get("embedding_multiplier", 1.0) if kind == "falconh1" else h * embedding
    for i in range(m.get("layers", LAYERS)):
        p = f"model.layers.{i}."
        if kind == "nemotron":
            h = mixtures.nemotron_layer(m, w, i, h)
            continue
        if kind == "falconh1":
            h = mixtures.falcon_layer(m, w, i, h)
            continue
        if "attends" in m:
            h = mixtures.mamba_layer(m, w, i, h) if kind == "granitehybrid" else hybrid_layer(m, w, i, h)
            continue

        def norm(x, name):
            return rms(x, w[p + name + ".weight"], eps, kind)

        x = h if kind in ("exaone4", "olmo2") else norm(h, "input_layernorm")
        y = mixtures.latent_attention(m, w, p, x) if kind == "deepseek" else attention(m, w, p, x, i)
        if gemma:
            h = h + norm(y, "post_attention_layernorm")
            h = h + norm(feed_forward(m, w, p, norm(h, "pre_feedforward_layernorm")), "post_feedforward_layernorm")
        elif kind == "glm4":
            h = h + norm(y, "post_self_attn_layernorm")
            h = h + norm(feed_forward(m, w, p, norm(h, "post_attention_layernorm")), "post_mlp_layernorm")
        elif kind in ("exaone4", "olmo2"):
            h = h + norm(y, "post_attention_layernorm")
            h = h + norm(feed_forward(m, w, p, h), "post_feedforward_layernorm")
        elif "lead" in m:
            h = h + residual * y
            h = h + residual * mixtures.feed_forward(m, w, i, norm(h, "post_attention_layernorm"))
        elif kind == "cohere2":
            h = h + y + feed_forward(m, w, p, x)
        else:
            h = h + residual * y
            h = h + residual * feed_forward(m, w, p, norm(h, "post_attention_layernorm"))
    if kind == "nemotron":
        return rms(h, w["model.norm_f.weight"], eps)
    if kind in ("lfm2", "falconh1"):
        return rms(h, w["model.embedding_norm.weight" if kind == "lfm2" else "model.final_layernorm.weight"], eps)
    return rms(h, w["model.norm.weight"], eps, "gemma" if kind == "qwen35" else kind)


def logits(m, w, ids):
    """Of the last token."""
    if m["kind"] in ("gemma3n", "gemma4", "mamba", "llama4"):
        return {"gemma3n": gemma3n, "gemma4": gemma4, "mamba": mamba, "llama4": llama4}[m["kind"]].logits(m, w, ids)
    w = bitnet.made(m, w) if m["kind"] == "bitnet" else w
    head = w["model.embed_tokens.weight" if m["tied"] and not m.get("only_head") else "lm_head.weight"].astype(np.float64)
    divisor = m.get("scales", (0, 1.0, 1.0, 1.0))[3]
    divisor = divisor / m["config"].get("lm_head_multiplier", 1.0)
    out = head @ states(m, w, ids)[-1] / divisor * m.get("logit_scale", 1.0)
    return m["caps"][1] * np.tanh(out / m["caps"][1]) if m.get("caps") else out
