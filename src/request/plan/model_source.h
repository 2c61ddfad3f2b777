// Finds a model's files, or builds its description from the catalog.
#pragma once

#include "sftbench/catalog/models.h"
#include "sftbench/plan/actuator.h"
#include "sftbench/plan/resolve.h"

namespace sftbench {

// weights "auto": the folder that the actuator's model_map names for the model, else the first of
// the catalog's places that is at hand; RunError(kWeights) with the command that fetches it when
// there is none. weights "random": the catalog's architecture; the folder's config.json where
// model_map names the model or the architecture is unpublished. RunError(kWeights) when neither is
// known.
//
// format: "Vanilla", or "GPTQ-Quantized", whose random weights are quantized as AutoGPTQ does it by
// default where config.json does not say how: 4 bits, groups of 128. with_tokenizer: the folder has
// to have one, because no other is named.
ModelSource find_model(const std::string& name, const std::string& format,
                       const ActuatorSettings& settings, const std::string& weights,
                       const ModelCatalog& models, bool with_tokenizer = true);

// Lets its linears be quantized in NF4 when weights are read or drawn. RunError(kUnsupported) where
// they are quantized otherwise, and of mixtures whose experts are stacked.
void quantize_in_nf4(ModelSource& source, bool double_quantized);

// For a prediction, decoder_like() takes the place of a family that is not trained.
void take_decoder_like(ModelSource& source);

// The hub id among its places, where find_model() or find_tokenizer() would find no files; empty
// otherwise.
std::string absent_hub_model(const std::string& name, const std::string& format,
                             const ActuatorSettings& settings, const ModelCatalog& models);
std::string absent_hub_tokenizer(const std::string& place, const ActuatorSettings& settings);

// "model_name x: its family, y, is not one that this version trains: ..."
std::string unknown_family_refusal(const std::string& name, const std::string& family);

// The folder with tokenizer.json that `place` names, a folder or a hub id. RunError(kWeights).
std::string find_tokenizer(const std::string& place, const ActuatorSettings& settings);

// Linears that adapters go to: those of gptq_lora_targets where they are asked for and known, else
// of lora_targets. Quantizing changes no names.
std::vector<std::string> lora_targets_of(const ModelCatalog& models, const std::string& name,
                                         bool quantized);

// The family whose layers a model has: that of its text model where it reads images.
std::string layer_family_of(const Json& hf_config);

// Whether a dataset of that name holds images.
bool is_vision_dataset(const std::string& dataset_id);

// FSDP takes a class by its name, and finds none of another family's. Empty when `asked` is the
// family's own, or nothing is asked for or known.
std::string foreign_layer_class_refusal(const std::string& name, const std::string& family,
                                        const std::string& asked);

// What products are computed in: PrecisionPlan's autocast.
Autocast autocast_of(Autocast mixed_precision, bool bf16, bool fp16);

// RunError(kUnsupported) when no family of that name is trained; `place`, which may be empty, is
// the evidence.
void refuse_unknown_family(const std::string& name, const std::string& family,
                           const std::string& place);

// "llama"; empty when the config names none.
std::string family_of(const Json& hf_config);

}  // namespace sftbench
