// The C functions through which certus talks to a Stan program, with the names and signatures of BridgeStan 2.
//
// This file is appended to the C++ that stanc writes for one Stan program, so that Stan's headers are read once.
// The generated code supplies new_model(); everything else here is written against stan/model/model_base.hpp.

#include <stan/io/empty_var_context.hpp>
#include <stan/io/json/json_data.hpp>
#include <stan/services/util/create_rng.hpp>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#define CERTUS_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

// Output of print() in the Stan program is dropped, but what was printed before a failure is part of its message.
struct Messages {
  std::ostringstream text;
  std::string with(const char *what) const { return text.str().empty() ? what : std::string(what) + "\n" + text.str(); }
};

void report(char **error_msg, const std::string &message) {
  if (error_msg != nullptr) *error_msg = strdup(message.c_str());
}

// Runs `work` and returns 0; an exception becomes -1 and a message.
template <typename F>
int guarded(const char *place, char **error_msg, F &&work) {
  Messages messages;
  try {
    work(&messages.text);
    return 0;
  } catch (const std::exception &e) {
    report(error_msg, std::string(place) + ": " + messages.with(e.what()));
  } catch (...) {
    report(error_msg, std::string(place) + ": an exception that is not a std::exception");
  }
  return -1;
}

std::string joined(const std::vector<std::string> &names) {
  std::string line;
  for (const auto &name : names) line += (line.empty() ? "" : ",") + name;
  return line;
}

std::unique_ptr<stan::io::var_context> read_data(const char *data) {
  const std::string text = data == nullptr ? "" : data;
  if (text.empty()) return std::make_unique<stan::io::empty_var_context>();
  if (text.size() >= 5 && text.compare(text.size() - 5, 5, ".json") == 0) {
    std::ifstream file(text);
    if (!file.good()) throw std::runtime_error("the data file " + text + " cannot be opened");
    return std::make_unique<stan::json::json_data>(file);
  }
  std::istringstream stream(text);
  return std::make_unique<stan::json::json_data>(stream);
}

}  // namespace

struct bs_rng {
  stan::rng_t state;
};

// Strings are made once, because callers keep the pointers as long as the model.
struct bs_model {
  std::unique_ptr<stan::model::model_base> model;
  std::string name, info, unconstrained_names;
  std::string names[2][2];
  int sizes[2][2];

  bs_model(const char *data, unsigned int seed, std::ostream *messages) {
    const auto context = read_data(data);
    model.reset(&new_model(*context, seed, messages));
    name = model->model_name();
    std::vector<std::string> list;
    model->unconstrained_param_names(list, false, false);
    unconstrained_names = joined(list);
    for (int tp = 0; tp < 2; ++tp) {
      for (int gq = 0; gq < 2; ++gq) {
        list.clear();
        model->constrained_param_names(list, tp, gq);
        names[tp][gq] = joined(list);
        sizes[tp][gq] = static_cast<int>(list.size());
      }
    }
    for (const auto &line : model->model_compile_info()) info += line + "\n";
#ifdef STAN_THREADS
    info += "STAN_THREADS=true\n";
#else
    info += "STAN_THREADS=false\n";
#endif
  }

  int dim() const { return static_cast<int>(model->num_params_r()); }
};

// The version of BridgeStan whose functions these are.
CERTUS_EXPORT const int bs_major_version = 2;
CERTUS_EXPORT const int bs_minor_version = 5;
CERTUS_EXPORT const int bs_patch_version = 0;

CERTUS_EXPORT bs_model *bs_model_construct(const char *data, unsigned int seed, char **error_msg) {
  bs_model *made = nullptr;
  guarded("the data do not fit the program", error_msg, [&](std::ostream *out) { made = new bs_model(data, seed, out); });
  return made;
}

CERTUS_EXPORT void bs_model_destruct(bs_model *m) { delete m; }
CERTUS_EXPORT void bs_free_error_msg(char *message) { std::free(message); }
CERTUS_EXPORT const char *bs_name(const bs_model *m) { return m->name.c_str(); }
CERTUS_EXPORT const char *bs_model_info(const bs_model *m) { return m->info.c_str(); }
CERTUS_EXPORT const char *bs_param_names(const bs_model *m, bool tp, bool gq) { return m->names[tp][gq].c_str(); }
CERTUS_EXPORT const char *bs_param_unc_names(const bs_model *m) { return m->unconstrained_names.c_str(); }
CERTUS_EXPORT int bs_param_num(const bs_model *m, bool tp, bool gq) { return m->sizes[tp][gq]; }
CERTUS_EXPORT int bs_param_unc_num(const bs_model *m) { return m->dim(); }

CERTUS_EXPORT bs_rng *bs_rng_construct(unsigned int seed, char **error_msg) {
  bs_rng *made = nullptr;
  guarded("the random stream", error_msg, [&](std::ostream *) { made = new bs_rng{stan::services::util::create_rng(seed, 0)}; });
  return made;
}

CERTUS_EXPORT void bs_rng_destruct(bs_rng *rng) { delete rng; }

CERTUS_EXPORT int bs_param_constrain(const bs_model *m, bool tp, bool gq, const double *unconstrained,
                                     double *constrained, bs_rng *rng, char **error_msg) {
  return guarded("constraining the parameters", error_msg, [&](std::ostream *out) {
    if (gq && rng == nullptr) throw std::invalid_argument("generated quantities need a random stream, got none");
    stan::rng_t unused = stan::services::util::create_rng(0, 1);
    Eigen::VectorXd from = Eigen::Map<const Eigen::VectorXd>(unconstrained, m->dim());
    Eigen::VectorXd to;
    m->model->write_array(rng == nullptr ? unused : rng->state, from, to, tp, gq, out);
    Eigen::Map<Eigen::VectorXd>(constrained, to.size()) = to;
  });
}

CERTUS_EXPORT int bs_param_unconstrain(const bs_model *m, const double *constrained, double *unconstrained,
                                       char **error_msg) {
  return guarded("unconstraining the parameters", error_msg, [&](std::ostream *out) {
    const Eigen::VectorXd from = Eigen::Map<const Eigen::VectorXd>(constrained, m->sizes[0][0]);
    Eigen::VectorXd to;
    m->model->unconstrain_array(from, to, out);
    Eigen::Map<Eigen::VectorXd>(unconstrained, to.size()) = to;
  });
}

// The value through the reverse tape, as `propto` drops terms by looking at the types of their arguments.
CERTUS_EXPORT int bs_log_density_gradient(const bs_model *m, bool propto, bool jacobian, const double *unconstrained,
                                          double *value, double *gradient, char **error_msg) {
  return guarded("the log density", error_msg, [&](std::ostream *out) {
    static thread_local stan::math::ChainableStack tape_of_this_thread;
    stan::math::nested_rev_autodiff tape_is_cleared_at_the_end;
    Eigen::Matrix<stan::math::var, -1, 1> z = Eigen::Map<const Eigen::VectorXd>(unconstrained, m->dim());
    stan::math::var density = jacobian ? (propto ? m->model->log_prob_propto_jacobian(z, out) : m->model->log_prob_jacobian(z, out))
                                       : (propto ? m->model->log_prob_propto(z, out) : m->model->log_prob(z, out));
    *value = density.val();
    density.grad();
    for (int i = 0; i < m->dim(); ++i) gradient[i] = z.coeff(i).adj();
  });
}

CERTUS_EXPORT int bs_log_density(const bs_model *m, bool propto, bool jacobian, const double *unconstrained,
                                 double *value, char **error_msg) {
  std::vector<double> gradient(m->dim());
  return bs_log_density_gradient(m, propto, jacobian, unconstrained, value, gradient.data(), error_msg);
}
