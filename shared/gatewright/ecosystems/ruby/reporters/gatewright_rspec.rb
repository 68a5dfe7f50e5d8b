# RSpec requires this, because SPEC_OPTS names it: it listens to the reporter that every run has.
require_relative "gatewright_channel"
require "rspec/core"

module GatewrightRSpec
  EMIT = GatewrightChannel.take

  # Called by their descriptions: places change when others come before them.
  class Ids
    def initialize
      @ids = {}
      @seen = Hash.new(0)
    end

    def of(example)
      @ids[example.id] ||= begin
        path = GatewrightChannel.here(example.metadata[:absolute_file_path]) || example.metadata[:file_path]
        own = example.metadata[:description_args].to_a.first
        name = [example.example_group.metadata[:full_description], own.nil? ? "example" : own.to_s].join(" ")
        number = (@seen["#{path}::#{name}"] += 1)
        number == 1 ? "#{path}::#{name}" : "#{path}::#{name} ... ##{number}"
      end
    end
  end

  class Listener
    def initialize(ids)
      @ids = ids
      @good = true
    end

    attr_reader :good

    def example_passed(note)
      emit(note, "passed")
    end

    def example_pending(note)
      emit(note, "skipped")
    end

    def example_failed(note)
      emit(note, "failed")
    end

    def message(_note); end

    private

    def emit(note, outcome)
      @good = false if outcome == "failed"
      EMIT.call("test", id: @ids.of(note.example), outcome: outcome)
    end
  end

  module Files
    def load_spec_files
      @files_to_run = files_to_run | GatewrightChannel.planted if GatewrightChannel.purpose == "control"
      super
    end
  end

  module Report
    def report(count)
      ids = Ids.new
      listener = Listener.new(ids)
      register_listener(listener, :example_passed, :example_failed, :example_pending)
      EMIT.call("begin", framework: "rspec", version: RSpec::Core::Version::STRING)
      groups = RSpec.world.all_example_groups
      found = groups.to_h { |group| [group, RSpec.world.filtered_examples[group]] }
      found.each_value { |each| each.each { |one| EMIT.call("collected", id: ids.of(one)) } } if GatewrightChannel.purpose != "control"
      unless GatewrightChannel.purpose == "all"
        found.each do |group, each|
          RSpec.world.filtered_examples[group] = each.select { |one| GatewrightChannel.only.include?(ids.of(one)) }
        end
        groups.each { |group| group.instance_variable_set(:@descendant_filtered_examples, nil) }
      end
      passed = super
      outside = RSpec.world.non_example_failure || RSpec.world.reporter.nil?
      EMIT.call("end", status: listener.good && passed != false && !outside ? 0 : 1)
      passed
    end
  end

  if EMIT
    RSpec::Core::Configuration.prepend(Files)
    RSpec::Core::Reporter.prepend(Report)
  end
end
