mod model;
mod mutants;
