// Runs Stan's full-rank ADVI on one model and prints the Gaussian itself, which Stan's own service does not give out.
//
// The steps are those of stan::services::experimental::advi::fullrank (initialise in [-2, 2], adapt eta, stochastic gradient
// ascent) up to the drawing of the sample; gradients and values of the log density are counted by a wrapper.
#include STAN_MODEL_FILE
#include <stan/callbacks/interrupt.hpp>
#include <stan/callbacks/stream_logger.hpp>
#include <stan/callbacks/writer.hpp>
#include <stan/io/empty_var_context.hpp>
#include <stan/io/json/json_data.hpp>
#include <stan/model/gradient.hpp>
#include <stan/services/util/create_rng.hpp>
#include <stan/services/util/initialize.hpp>
#include <stan/variational/advi.hpp>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iostream>
#include <string>
#include <type_traits>

static long gradients = 0, values = 0;

struct counted {
  stan_model& model;
  size_t num_params_r() const { return model.num_params_r(); }
  template <bool propto, bool jacobian, typename T>
  T log_prob(Eigen::Matrix<T, -1, 1>& x, std::ostream* msgs) const {
    std::is_same<T, double>::value ? ++values : ++gradients;
    return model.template log_prob<propto, jacobian>(x, msgs);
  }
};

static double cpu() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}

// DATA SEED GRAD_SAMPLES MAX_ITERATIONS TOL_REL_OBJ; elbo_samples = eval_elbo = 100, adapt_iterations = 50 as in CmdStan.
int main(int argc, char** argv) {
  if (argc != 6) return 2;
  std::ifstream file(argv[1]);
  stan::json::json_data data(file);
  const unsigned seed = std::stoul(argv[2]);
  stan_model plain(data, seed, &std::cerr);
  counted model{plain};
  stan::callbacks::stream_logger logger(std::cerr, std::cerr, std::cerr, std::cerr, std::cerr);
  stan::callbacks::writer writer;
  stan::io::empty_var_context no_init;
  const double began = cpu();
  auto rng = stan::services::util::create_rng(seed, 1);
  std::vector<double> start
      = stan::services::util::initialize(plain, no_init, rng, 2.0, false, logger, writer);
  ++gradients;
  ++values;
  Eigen::VectorXd position = Eigen::Map<Eigen::VectorXd>(start.data(), start.size());
  using family = stan::variational::normal_fullrank;
  family approximation(position);
  std::string error;
  double eta = 0;
  try {
    stan::variational::advi<counted, family, stan::rng_t> advi(model, position, rng, std::stoi(argv[3]), 100, 100, 1000);
    eta = advi.adapt_eta(approximation, 50, logger);
    advi.stochastic_gradient_ascent(approximation, eta, std::stod(argv[5]), std::stoi(argv[4]), logger, writer);
  } catch (const std::exception& e) {
    error = e.what();
    std::cerr << "ERROR " << error << "\n";
  }
  const double seconds = cpu() - began;
  std::printf("%ld %ld %.9g %.17g\n", gradients, values, seconds, eta);
  const int d = approximation.dimension();
  for (int i = 0; i < d; ++i) std::printf("%.17g ", approximation.mu()(i));
  std::printf("\n");
  for (int i = 0; i < d; ++i) {
    for (int j = 0; j < d; ++j) std::printf("%.17g ", j <= i ? approximation.L_chol()(i, j) : 0.0);
    std::printf("\n");
  }
  return error.empty() ? 0 : 1;
}
